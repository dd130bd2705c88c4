"""curate on pairs: UltraFeedback as it is, contradictions and copies counted, and what is made is trained on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from components.contract.errors import InputError
from components.curate.component import COMPONENT
from components.preference.component import COMPONENT as PREFERENCE
from components.tasks.row_kinds.preferences import preference_of
from components.tasks.row_kinds.reading import read_judged
from components.tasks.rows import read_rows
from tests.stages.supervised_data import base_model
from tests.support.stage_context import Finished, run_stage, write_jsonl

ULTRAFEEDBACK = Path(__file__).parents[1] / "tasks" / "row_kinds" / "ultrafeedback.jsonl"


def pair(prompt: str, chosen: str, rejected: str, **more: Any) -> dict[str, Any]:
    return {"prompt": prompt, "chosen": chosen, "rejected": rejected, **more}


def curate(folder: Path, path: Path, source: dict[str, Any] | None = None, **params: Any) -> Finished:
    share = {"domain": "chat", "source": {"name": "preferences", "path": str(path), **(source or {})}}
    given = {"sources": [share], "verifiability": False, "shuffle": False, "dedup": {"exact": False}, **params}
    return run_stage(COMPONENT, folder, params=given, inputs={})


def curated(folder: Path, rows: list[dict[str, Any]], **config: Any) -> Finished:
    write_jsonl(folder / "pairs", rows)
    selectors = [{"name": "consistent_pairs", **config}]
    return curate(folder / "run", folder / "pairs" / "rows.jsonl", selectors=selectors)


def test_hub_rows_become_rows_that_the_preference_stage_learns(tmp_path: Path) -> None:
    found = curate(tmp_path / "run", ULTRAFEEDBACK)
    pairs = read_judged(found.outputs["dataset"], preference_of)
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "rows.jsonl").write_bytes(ULTRAFEEDBACK.read_bytes())
    plain = read_judged(tmp_path / "plain", preference_of)
    kept = [(one.task, one.chosen, one.rejected, one.margin) for one in pairs]
    assert kept == [(one.task, one.chosen, one.rejected, one.margin) for one in plain]
    assert {one.domain for one in pairs} == {"chat"}
    given = {"model": base_model(tmp_path / "model"), "dataset": found.outputs["dataset"]}
    trained = run_stage(PREFERENCE, tmp_path / "trained", params={"steps": 1, "batch_size": 4}, inputs=given)
    assert trained.metrics["num_examples"] == 20


def test_contradictions_copies_and_equal_sides_go_by_name(tmp_path: Path) -> None:
    rows = [
        pair("a", "x", "y"),
        pair("a", "y", " x"),  # the opposite, but for white space
        pair("b", "x", "y", margin=0.5),
        pair("b", "x", "y"),
        pair("b", "x  z", "x z"),
        pair("c", "x", "y"),
    ]
    found = curated(tmp_path, rows)
    assert [row["prompt"] for row in read_rows(found.outputs["dataset"])] == ["b", "c"]
    card = json.loads((found.outputs["dataset"] / "card.json").read_text())
    assert card["drops"] == {"contradicted": 2, "equal_sides": 1, "repeated_pair": 1}
    assert found.metrics["dropped_contradicted"] == 2


def test_steps_contradict_one_another_behind_one_prefix_alone(tmp_path: Path) -> None:
    rows = [
        pair("a", "x", "y", prefix="1."),
        pair("a", "y", "x", prefix="2."),
        pair("a", "x", "y"),
        pair("b", "x", "y", prefix="1."),
        pair("b", "y", "x", prefix="1. "),
    ]
    found = curated(tmp_path, rows)
    kept = [(row["prompt"], row.get("prefix"), row["chosen"]) for row in read_rows(found.outputs["dataset"])]
    assert kept == [("a", "1.", "x"), ("a", "2.", "y"), ("a", None, "x")]
    assert found.metrics["dropped_contradicted"] == 2


def test_a_copy_of_a_pair_that_was_dropped_is_no_copy(tmp_path: Path) -> None:
    rows = [pair("a", "x", "y", margin=0.5), pair("a", "x", "y", margin=2), pair("a", "x", "y", margin=3)]
    found = curated(tmp_path, rows, min_margin=1)
    assert [row["margin"] for row in read_rows(found.outputs["dataset"])] == [2.0]
    assert found.metrics["dropped_small_margin"] == found.metrics["dropped_repeated_pair"] == 1


def test_pairs_need_a_margin_where_one_is_asked_for(tmp_path: Path) -> None:
    rows = [pair("a", "x", "y", margin=0.5), pair("b", "x", "y", margin=2), pair("c", "x", "y")]
    found = curated(tmp_path, rows, min_margin=1)
    assert [row["margin"] for row in read_rows(found.outputs["dataset"])] == [2.0]
    assert found.metrics["dropped_small_margin"] == 2


def test_bad_rows_stop_with_their_place_or_are_counted(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "bad", [pair("a", "x", "x"), pair("b", "x", "y")]) / "rows.jsonl"
    with pytest.raises(InputError, match=r"rows\.jsonl:1: chosen and rejected are equal"):
        curate(tmp_path / "refused", path)
    found = curate(tmp_path / "dropped", path, {"bad_rows": "drop"})
    assert found.metrics["num_rows"] == 1 and found.metrics["dropped_bad_row"] == 1
    with pytest.raises(InputError, match=r"its sha256 is .*, and the recipe pins"):
        curate(tmp_path / "pinned", path, {"sha256": "0" * 64})


def test_rows_that_are_no_pairs_are_refused_by_the_selector(tmp_path: Path) -> None:
    row = {"id": "a", "domain": "d", "prompt": "?", "answer": "1", "verifier": "exact"}
    params = {"sources": [{"source": "artifact"}], "selectors": ["consistent_pairs"]}
    given = {"dataset": write_jsonl(tmp_path / "rows", [row])}
    with pytest.raises(InputError, match="row a is no pair of texts: take source `preferences`") as raised:
        run_stage(COMPONENT, tmp_path / "run", params=params, inputs=given)
    assert "\n" not in str(raised.value)


def ordered(domain: str, sides: str) -> list[dict[str, Any]]:
    """Pairs whose judge was shown the chosen side first (c), the rejected one (r), or nobody knows (-)."""
    names = {"c": {"shown_first": "chosen"}, "r": {"shown_first": "rejected"}, "-": {}}
    return [pair(f"{domain}{at}", "x", "y", domain=domain, **names[side]) for at, side in enumerate(sides)]


@pytest.mark.parametrize(
    ("sides", "max_share", "kept"),
    [
        ("crcc", 0.5, "a0 a1"),
        ("ccrc-r", 0.5, "a0 a1 a2 a4 a5"),
        ("rr-", 0.5, "a2"),  # a judge that looks at the position alone
        ("ccccr", 0.75, "a0 a1 a2 a4"),
        ("ccr", 0.75, "a0 a1 a2"),
    ],
)
def test_positions_are_balanced(sides: str, max_share: float, kept: str, tmp_path: Path) -> None:
    write_jsonl(tmp_path / "pairs", [*ordered("a", sides), *ordered("b", "cr")])
    share = {"source": {"name": "preferences", "path": str(tmp_path / "pairs" / "rows.jsonl")}}
    params = {
        "sources": [share],
        "selectors": [{"name": "balanced_positions", "max_share": max_share}],
        "verifiability": False,
        "shuffle": False,
        "dedup": {"exact": False},
    }
    found = run_stage(COMPONENT, tmp_path / "run", params=params, inputs={})
    rows = read_rows(found.outputs["dataset"])
    assert " ".join(row["prompt"] for row in rows) == f"{kept} b0 b1", "domains are balanced by themselves"
    assert found.metrics.get("dropped_position_surplus", 0) == len(sides) - len(kept.split())
    assert rows[-1]["shown_first"] == "rejected"


def test_positions_that_nobody_knows_or_nobody_can_read_are_one_line(tmp_path: Path) -> None:
    for name, rows, words in (
        ("none", ordered("a", "--"), "no pair has the column `shown_first`"),
        (
            "left",
            [pair("a", "x", "y", shown_first="left")],
            r"rows\.jsonl:1: shown_first is 'left', expected",
        ),
    ):
        write_jsonl(tmp_path / name, rows)
        with pytest.raises(InputError, match=words) as raised:
            curate(tmp_path / f"{name}-run", tmp_path / name / "rows.jsonl", selectors=["balanced_positions"])
        assert "\n" not in str(raised.value)
