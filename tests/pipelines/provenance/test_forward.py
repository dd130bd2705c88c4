"""From a source to all that it touched."""

from __future__ import annotations

import json

import pytest

from components.contract.errors import InputError
from components.runtime.ledger.ledger import load_run
from pipelines.cli import main
from pipelines.models.export import export_model
from pipelines.models.find import model_of
from pipelines.provenance.forward import touched_by
from tests.pipelines.provenance.conftest import Tiny

DEPEND = {"demos", "prompts", "sft", "rl", "eval-rl"}
"""Stages of the recipe that `minus.jsonl` reaches, told by hand from its graph."""


def test_a_source_is_followed_to_every_stage_model_version_and_export(tiny: Tiny, tmp_path) -> None:
    export_model(tiny.store, model_of(tiny.store, f"{tiny.run_id}:rl.model"), tmp_path / "out", check=False)
    card = (tmp_path / "out" / "README.md").read_text()
    assert "| minus.jsonl | not stated | not stated |" in card
    assert str(tiny.recipe.parent) not in card
    found = touched_by(tiny.store, "source:minus.jsonl")
    assert {stage["stage"] for stage in found.stages} == DEPEND
    run = load_run(tiny.store, tiny.run_id)
    made = {(one["stage"], one["digest"]): one["registered"] for one in found.models}
    digests = {stage: run.stages[stage]["outputs"]["model"]["digest"] for stage in ("sft", "rl")}
    assert made == {("sft", digests["sft"]): [], ("rl", digests["rl"]): ["tiny/1 @candidate"]}
    (export,) = found.exports
    assert export["model"] == digests["rl"]
    assert export["folder"] == str(tmp_path / "out")
    assert set(export["files"]) >= {"README.md", "model.safetensors"}
    (use,) = found.uses
    assert (use.stage, use.kept, use.drawn) == ("demos", 21, 21)
    assert use.sha256 and len(use.sha256) == 64


@pytest.mark.parametrize(
    ("name", "stages"),
    [
        ("minus.jsonl", ["demos"]),
        ("files", ["demos", "demos"]),
        ("jsonl", ["demos", "demos"]),
        ("chain_sum", ["corpus", "demos", "heldout"]),
        ("demos.sums", ["demos"]),
        ("source:spelling", ["demos"]),
    ],
)
def test_a_source_is_called_by_what_it_reads_by_its_operator_or_by_its_domain(tiny: Tiny, name, stages) -> None:
    assert sorted(use.stage for use in touched_by(tiny.store, name).uses) == stages


def test_what_a_cached_run_reuses_is_told_once_with_both_runs(tiny: Tiny) -> None:
    assert main(["run", str(tiny.recipe), "--store", str(tiny.folder), "--json"]) == 0
    found = touched_by(tiny.store, "minus.jsonl")
    (use,) = found.uses
    assert use.entry["run_id"] == tiny.run_id and len(use.runs) == 2
    assert len(found.models) == 2


def test_what_passes_on_rows_is_no_source(tiny: Tiny) -> None:
    with pytest.raises(InputError, match="no run of this store read a source 'artifact'"):
        touched_by(tiny.store, "artifact")


def test_an_unknown_source_gets_one_line_with_the_nearest(tiny: Tiny, capsys) -> None:
    assert main(["trace", "source:minus.json", "--store", str(tiny.folder)]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and "did you mean 'minus.jsonl'?" in told
    assert main(["trace", "source:minus.jsonl", "x", "--store", str(tiny.folder)]) == 2
    assert capsys.readouterr().err.startswith("posttrain: source:minus.jsonl is a source")


def test_json_and_tables_tell_the_same(tiny: Tiny, capsys) -> None:
    assert main(["trace", "source:minus.jsonl", "--store", str(tiny.folder), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {stage["stage"] for stage in told["stages"]} == DEPEND
    assert main(["trace", "source:minus.jsonl", "--store", str(tiny.folder)]) == 0
    printed = capsys.readouterr().out
    assert all(one["digest"][:12] in printed for one in told["models"])
    assert "tiny/1 @candidate" in printed


def test_what_was_removed_since_stays_in_the_trace(tiny: Tiny) -> None:
    run = load_run(tiny.store, tiny.run_id)
    tiny.store.delete(run.stages["sft"]["outputs"]["model"]["digest"])
    tiny.store.delete(run.stages["demos"]["outputs"]["dataset"]["digest"])
    found = touched_by(tiny.store, "minus.jsonl")
    assert {stage["stage"] for stage in found.stages} == DEPEND
    assert [use.kept for use in found.uses] == [None]
