"""From an item of an evaluation back to rows, rollouts and the ledgers of RL."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from components.contract.errors import InputError
from components.runtime.ledger.ledger import load_run
from components.tasks.rows import read_rows
from pipelines.cli import main
from pipelines.provenance.backward import Behind, trace_back
from pipelines.provenance.items import Measured, evaluations, find_item
from pipelines.provenance.nearest import Asked, How
from tests.pipelines.provenance.conftest import HOSTILE, Tiny


def _measured(tiny: Tiny, stage: str = "eval-rl") -> Measured:
    return evaluations(tiny.store, load_run(tiny.store, tiny.run_id), stage)[-1]


def _rows(tiny: Tiny, stage: str, port: str = "dataset") -> list[dict[str, Any]]:
    run = load_run(tiny.store, tiny.run_id)
    return read_rows(tiny.store.fetch(run.stages[stage]["outputs"][port]["digest"]))


def _behind(tiny: Tiny, row: dict[str, Any], stage: str = "eval-rl") -> Behind:
    item = Asked(row["id"], row["domain"], row["prompt"], row["answer"])
    return trace_back(tiny.store, _measured(tiny, stage), [item])


@pytest.mark.parametrize("name", ["plus", "minus"])
def test_each_row_leads_to_the_one_file_that_gave_it_through_a_stage_that_passed_it_on(tiny: Tiny, name: str) -> None:
    """Both files have one domain, and the rows are shuffled: only the record of curate tells them apart."""
    told = [row for row in _rows(tiny, "demos") if row["prompt"].startswith(name)]
    assert len(told) == 21
    for row in told[:4]:
        (one,) = _behind(tiny, row).traces
        same = [near for near in one.rows if near.near.how is How.ID]
        assert {near.stages for near in same} == {(f"{tiny.run_id}:sft",), (f"{tiny.run_id}:rl",)}
        for near in same:
            assert [use.source.label for use in near.origin.sources] == [f"{name}.jsonl"]
        through = {near.stages[0].rpartition(":")[2]: near.origin.stages for near in same}
        assert through == {"sft": ("demos",), "rl": ("prompts", "demos")}


def test_an_item_is_found_with_what_was_read_behind_its_model(tiny: Tiny) -> None:
    row = _rows(tiny, "heldout")[0]
    behind = _behind(tiny, row)
    assert [stage.rpartition(":")[2] for stage in behind.stages] == ["base", "sft", "rl"]
    expected = sum(len(_rows(tiny, stage)) for stage in ("corpus", "demos", "prompts"))
    assert behind.num_rows == expected
    assert behind.num_rollouts == len(_rows(tiny, "rl", "rollouts"))
    assert behind.traces[0].rows[0].near.how is How.ID  # demos draws from the held-out source on purpose


def test_rollouts_and_the_ledger_of_its_domain_mention_what_rl_trained_on(tiny: Tiny) -> None:
    rollouts = _rows(tiny, "rl", "rollouts")
    tried = rollouts[0]
    row = next(row for row in _rows(tiny, "prompts") if row["id"] == tried["prompt_id"])
    (one,) = _behind(tiny, row).traces
    assert one.rollouts[0].near.how is How.ID
    assert one.rollouts[0].near.row["response"] in {one["response"] for one in rollouts}
    (ledger,) = one.ledgers
    assert ledger.own is not None and ledger.own.num_wrong + ledger.own.num_right + ledger.own.num_failed >= 2
    folder = tiny.store.fetch(load_run(tiny.store, tiny.run_id).stages["rl"]["outputs"]["metrics"]["digest"])
    visits = [json.loads(line) for line in (folder / "visits.jsonl").read_text().splitlines()]
    of_domain = [visit for visit in visits if visit["domain"] == row["domain"]]
    assert ledger.num_prompts == len({visit["prompt_id"] for visit in of_domain})


def test_a_model_is_followed_to_its_own_training_alone(tiny: Tiny) -> None:
    behind = _behind(tiny, _rows(tiny, "heldout")[0], "eval-base")
    assert [stage.rpartition(":")[2] for stage in behind.stages] == ["base"]
    assert not behind.traces[0].ledgers and not behind.traces[0].rollouts


def test_rows_that_are_gone_are_named_and_the_others_are_read(tiny: Tiny, capsys) -> None:
    run = load_run(tiny.store, tiny.run_id)
    digest = run.stages["demos"]["outputs"]["dataset"]["digest"]
    tiny.store.delete(digest)
    behind = _behind(tiny, _rows(tiny, "heldout")[0])
    assert len(behind.gone) == 1 and digest[:12] in behind.gone[0]
    assert behind.num_rows == len(_rows(tiny, "corpus")) + len(_rows(tiny, "prompts"))
    assert main(["trace", tiny.run_id, "--store", str(tiny.folder), "--limit", "1"]) == 0
    assert "cannot be read" in capsys.readouterr().out


def test_an_unknown_item_stage_or_run_gets_one_line(tiny: Tiny, capsys) -> None:
    item = _rows(tiny, "heldout")[0]["id"]
    for what, told in (
        ([tiny.run_id, f"{item}x"], f"did you mean '{item}'?"),
        ([f"{tiny.run_id}:eval-lr"], "did you mean 'eval-rl'?"),
        ([f"{tiny.run_id}:sft"], "has no pass rates of prompts"),
        (["tin-1"], "unknown run 'tin-1'"),
    ):
        assert main(["trace", *what, "--store", str(tiny.folder)]) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1 and told in error
    with pytest.raises(InputError, match="no item"):
        find_item(tiny.store, [_measured(tiny)], HOSTILE)


@pytest.mark.parametrize("limit", [1, 30])
def test_failed_items_are_listed_with_their_nearest_row(tiny: Tiny, capsys, limit: int) -> None:
    assert main(["trace", "latest", "--store", str(tiny.folder), "--json", "--limit", str(limit)]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["evaluation"] == f"{tiny.run_id}:eval-rl"
    assert len(told["items"]) == min(limit, len(_rows(tiny, "heldout")))
    rates = [one["solved"]["right"] for one in told["items"]]
    assert rates == sorted(rates)
    assert main(["trace", "latest", "--store", str(tiny.folder), "--json", "--right"]) == 0
    rates = [one["solved"]["right"] for one in json.loads(capsys.readouterr().out)["items"]]
    assert rates == sorted(rates, reverse=True)


def test_hostile_rows_do_not_act_on_the_terminal(tiny: Tiny, capsys, monkeypatch) -> None:
    """A row of a file, an item and a response with escapes, markup and a turned text are shown spelled out."""
    row = next(row for row in _rows(tiny, "demos") if HOSTILE in row["prompt"])
    item = Asked(row["id"], HOSTILE, row["prompt"], HOSTILE)
    monkeypatch.setattr("pipelines.provenance.items.find_item", lambda store, found, item_id: (found[-1], item))
    solved = {row["id"]: _measured(tiny).solved[_rows(tiny, "heldout")[0]["id"]]}
    shown = Measured(_measured(tiny).entry, solved)
    monkeypatch.setattr("pipelines.provenance.items.evaluations", lambda *_: [shown])
    for more in ([], ["--json"]):
        assert main(["trace", "latest", row["id"], "--store", str(tiny.folder), *more]) == 0
        printed = capsys.readouterr().out
        assert "script" in printed
        assert not {char for char in printed if not char.isprintable() and char != "\n"}
        if not more:
            assert "[bold]" in printed  # text, not markup


def test_origins_that_are_damaged_leave_what_the_domain_tells(tiny: Tiny, monkeypatch) -> None:
    def broken(data: bytes) -> list[int]:
        raise ValueError("no list of positions")

    monkeypatch.setattr("pipelines.provenance.rows.read_origins", broken)
    row = next(row for row in _rows(tiny, "demos") if row["prompt"].startswith("plus"))
    (one,) = _behind(tiny, row).traces
    assert one.rows[0].origin.words == "plus.jsonl (files) or minus.jsonl (files)"


def test_the_sources_of_rows_are_written_beside_the_card(tiny: Tiny) -> None:
    run = load_run(tiny.store, tiny.run_id)
    written = {
        stage: (Path(tiny.store.fetch(run.stages[stage]["outputs"]["report"]["digest"])) / "origins.json").is_file()
        for stage in ("demos", "prompts", "heldout")
    }
    assert written == {"demos": True, "prompts": False, "heldout": False}
