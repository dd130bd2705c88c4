"""A run made again without a source: what runs, what is cached, and what the statement says."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from components.runtime.ledger.ledger import RunRecord, load_run
from components.tasks.rows import read_rows
from pipelines.cli import main
from pipelines.provenance.forward import touched_by
from pipelines.provenance.leftovers import find_leftovers
from tests.pipelines.provenance.conftest import Tiny, ed25519

DEPEND = ["demos", "prompts", "sft", "rl", "eval-rl"]
"""What `minus.jsonl` reaches, told by hand from the recipe's graph."""
OTHERS = ["heldout", "corpus", "base", "eval-base"]


@pytest.fixture
def key(tmp_path: Path) -> str:
    return str(ed25519(tmp_path / "key.pem"))


def _rebuild(tiny: Tiny, key: str, *more: str, without: str = "source:minus.jsonl") -> int:
    place = ["--store", str(tiny.folder), "--output", str(tiny.folder.parent / "out.json")]
    return main(["rebuild", tiny.run_id, "--without", without, "--key", key, *place, *more])


def _runs(tiny: Tiny) -> list[str]:
    return sorted(path.name for path in (tiny.folder / "ledger").iterdir() if path.is_dir())


def _prompts(tiny: Tiny, run: RunRecord, stage: str) -> set[str]:
    return {row["prompt"] for row in read_rows(tiny.store.fetch(run.stages[stage]["outputs"]["dataset"]["digest"]))}


def _refused(tiny: Tiny, key: str, capsys, *more: str, without: str = "source:minus.jsonl") -> str:
    """Return the one line with which a rebuild is refused, before anything runs."""
    before = _runs(tiny)
    assert _rebuild(tiny, key, *more, without=without) == 2
    assert _runs(tiny) == before
    told: str = capsys.readouterr().err
    assert told.startswith("posttrain: ") and told.count("\n") == 1
    return told


def test_exactly_the_descendants_run_again_and_the_statement_tells_both_digests(tiny: Tiny, key: str, capsys) -> None:
    assert _rebuild(tiny, key, "--json") == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    before, after = load_run(tiny.store, tiny.run_id), load_run(tiny.store, told["run_id"])
    hits = {name: entry["cache"] for name, entry in after.stages.items()}
    assert hits == dict.fromkeys(OTHERS, "hit") | dict.fromkeys(DEPEND, "miss")
    stages = {stage["name"]: stage for stage in told["predicate"]["stages"]}
    assert {name: stage["result"] for name, stage in stages.items()} == dict.fromkeys(OTHERS, "reused") | dict.fromkeys(
        DEPEND, "rebuilt"
    )
    for name, stage in stages.items():
        assert stage["depends"] is (name in DEPEND)
        for port, output in stage["outputs"].items():
            assert output["before"] == before.stages[name]["outputs"][port]["digest"]
            assert output["after"] == after.stages[name]["outputs"][port]["digest"]
            assert (output["before"] == output["after"]) is (name not in DEPEND) or name == "eval-rl"
    assert _prompts(tiny, before, "demos") > _prompts(tiny, after, "demos")
    assert not any(
        text.startswith("minus") for text in _prompts(tiny, after, "demos") | _prompts(tiny, after, "prompts")
    )
    assert told["effect"]["will_run"] == [name for name in told["effect"]["will_run"] if name in DEPEND]
    (removed,) = told["predicate"]["removed"]
    assert (removed["source"], removed["stage"], removed["kept"]) == ("minus.jsonl", "demos", 21)
    assert removed["sha256"] == hashlib.sha256((tiny.recipe.parent / "minus.jsonl").read_bytes()).hexdigest()
    assert told["predicate"]["rows"] == {"removed": 21, "unclear": 0, "remaining": {}, "unread": []}
    left = {one["source"] for one in told["predicate"]["materials"]}
    assert left == {"chain_sum", "rules", "plus.jsonl"}


def test_the_subjects_are_the_new_artifacts_and_sha256_alone_checks_them(tiny: Tiny, key: str, capsys) -> None:
    assert _rebuild(tiny, key, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    after = load_run(tiny.store, told["run_id"])
    expected = {
        f"{after.run_id}:{name}.{port}": output["digest"]
        for name in DEPEND
        for port, output in after.stages[name]["outputs"].items()
    }
    assert {one["name"]: one["digest"]["sha256"] for one in told["subject"]} == expected
    for digest in expected.values():
        manifest = (tiny.folder / "objects" / digest / "manifest.json").read_bytes()
        assert hashlib.sha256(manifest).hexdigest() == digest
        for entry in json.loads(manifest)["files"]:
            found = (tiny.folder / "objects" / digest / "files" / entry["path"]).read_bytes()
            assert hashlib.sha256(found).hexdigest() == entry["sha256"]


def test_it_is_told_beforehand_and_trace_knows_of_it_afterwards(tiny: Tiny, key: str, capsys) -> None:
    assert _rebuild(tiny, key, "--plan") == 0
    first = capsys.readouterr().out
    assert first.startswith(
        "source:minus.jsonl: read by demos; 5 of 9 stages depend on it; 5 run, 4 are cached; about CPU"
    )
    assert len(_runs(tiny)) == 1 and not (tiny.folder.parent / "out.json").exists()
    assert _rebuild(tiny, key) == 0
    printed = capsys.readouterr().out
    assert "removed   minus.jsonl from demos: 21 of 21 rows, licence unknown" in printed
    (other,) = set(_runs(tiny)) - {tiny.run_id}
    assert touched_by(tiny.store, "minus.jsonl").rebuilds == [{"before": tiny.run_id, "after": other}]
    assert touched_by(tiny.store, "plus.jsonl").rebuilds == []


def test_a_second_removal_keeps_the_first(tiny: Tiny, key: str, capsys) -> None:
    assert _rebuild(tiny, key, "--json") == 0
    first = json.loads(capsys.readouterr().out)["run_id"]
    again = Tiny(tiny.recipe, tiny.folder, first)
    assert _rebuild(again, key, "--json", without="plus.jsonl") == 0
    told = json.loads(capsys.readouterr().out)
    prompts = _prompts(tiny, load_run(tiny.store, told["run_id"]), "demos")
    assert not any(text.startswith(("plus", "minus")) for text in prompts)
    assert told["predicate"]["runs"]["before"]["id"] == first
    assert [one["source"] for one in told["predicate"]["removed"]] == ["plus.jsonl"]


def test_rows_that_another_source_gives_as_well_are_counted(tiny: Tiny) -> None:
    """demos and corpus draw sums; without those of demos, whatever corpus holds of them is still learned."""
    before = load_run(tiny.store, tiny.run_id)
    rows = read_rows(tiny.store.fetch(before.stages["demos"]["outputs"]["dataset"]["digest"]))
    gone = {row["prompt"] for row in rows if row["domain"] == "sums"}
    found = find_leftovers(tiny.store, before, before, {"demos": [0]})
    corpus = read_rows(tiny.store.fetch(before.stages["corpus"]["outputs"]["dataset"]["digest"]))
    heldout = read_rows(tiny.store.fetch(before.stages["heldout"]["outputs"]["dataset"]["digest"]))
    assert found.removed == sum(row["domain"] == "sums" for row in rows)
    assert found.remaining["corpus.dataset"] == sum(row["prompt"] in gone for row in corpus)
    assert found.remaining["heldout.dataset"] == sum(row["prompt"] in gone for row in heldout) > 0


def test_a_source_that_is_everywhere_or_the_only_one_gets_one_line(tiny: Tiny, key: str, capsys, tmp_path) -> None:
    told = _refused(tiny, key, capsys, without="source:sums")
    assert "stage 'corpus' has no other source than 'sums'" in told and "STAGE.NAME" in told
    told = _refused(tiny, key, capsys, without="minus.json")
    assert "unknown source 'minus.json'; did you mean 'minus.jsonl'?" in told
    text = tiny.recipe.read_text()
    alone = tmp_path / "alone.yaml"
    alone.write_text("name: alone\nstages:\n  demos:" + text.partition("  demos:")[2].partition("  prompts:")[0])
    for name in ("plus", "minus"):
        (tmp_path / f"{name}.jsonl").write_bytes((tiny.recipe.parent / f"{name}.jsonl").read_bytes())
    alone.write_text(alone.read_text().replace("*sums", "{name: reasoning_gym, task: chain_sum}"))
    assert main(["run", str(alone), "--store", str(tiny.folder), "--json"]) == 0
    capsys.readouterr()
    (run_id,) = set(_runs(tiny)) - {tiny.run_id}
    only = Tiny(alone, tiny.folder, run_id)
    told = _refused(only, key, capsys)
    assert "reaches every stage: all 1 would run again, for about CPU" in told and "--everything does it" in told
    assert _rebuild(only, key, "--everything") == 0


def test_a_recipe_that_changed_since_is_not_mixed_in(tiny: Tiny, key: str, capsys, tmp_path) -> None:
    changed = tmp_path / "changed.yaml"
    changed.write_text(tiny.recipe.read_text().replace("steps: 2, batch_size: 16}", "steps: 3, batch_size: 16}"))
    for name in ("plus", "minus"):
        (tmp_path / f"{name}.jsonl").write_bytes((tiny.recipe.parent / f"{name}.jsonl").read_bytes())
    told = _refused(tiny, key, capsys, "--recipe", str(changed))
    assert f"the recipe of run {tiny.run_id} has changed since, in demos, sft" in told
    told = _refused(tiny, key, capsys, "--recipe", str(tmp_path / "none.yaml"))
    assert "no such file" in told


def test_a_run_that_did_not_succeed_is_no_side_of_a_comparison(tiny: Tiny, key: str, capsys) -> None:
    (tiny.folder / "ledger" / tiny.run_id / "end.json").unlink()
    assert f"run {tiny.run_id} is unfinished" in _refused(tiny, key, capsys)


def test_what_the_source_reached_elsewhere_is_not_taken_in_again(tiny: Tiny, key: str, capsys, tmp_path) -> None:
    """A recipe that goes on from a registered model of the first run, and reads the same file."""
    later = tmp_path / "later.yaml"
    source = (
        "{domain: a, source: {name: jsonl, path: minus.jsonl}}, {domain: b, source: {name: jsonl, path: plus.jsonl}}"
    )
    later.write_text(
        f"name: later\nstages:\n  rows: {{uses: curate, with: {{kind: demonstrations, sources: [{source}]}}}}\n"
        "  more: {uses: sft, in: {model: 'models:/tiny@candidate', dataset: rows.dataset}, with: {steps: 1}}\n"
    )
    for name in ("plus", "minus"):
        (tmp_path / f"{name}.jsonl").write_bytes((tiny.recipe.parent / f"{name}.jsonl").read_bytes())
    assert main(["run", str(later), "--store", str(tiny.folder), "--json"]) == 0
    capsys.readouterr()
    (run_id,) = set(_runs(tiny)) - {tiny.run_id}
    told = _refused(Tiny(later, tiny.folder, run_id), key, capsys)
    assert "input model of stage 'more' is models:/tiny@candidate, which minus.jsonl reached" in told
    assert f"rebuild {tiny.run_id}:rl first" in told


def test_a_stage_that_fails_leaves_no_statement(tiny: Tiny, key: str, capsys, monkeypatch) -> None:
    """A gate fails in the rebuilt run alone: without the file there are fewer rows."""
    monkeypatch.setattr(
        "pipelines.provenance.reach.overrides_without",
        lambda own, left, names: [*own, "without=[minus.jsonl]", "stages.prompts.gate=num_rows > 80"],
    )
    assert _rebuild(tiny, key) == 1
    printed = capsys.readouterr().out
    assert "no statement yet" in printed and not (tiny.folder.parent / "out.json").exists()
