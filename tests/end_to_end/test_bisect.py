"""Bisection of real trainings: a planted cause among twelve differences, in a few runs' worth of new work."""

from __future__ import annotations

from pathlib import Path

from tests.support.command_line import MICRO, Project

GOOD, WORSE = (str(MICRO.with_name(f"micro-{name}.yaml")) for name in ("shared", "worse"))
PLANTED = "stages.sft.with.optimizer.peak_learning_rate"
MOST_RUNS = 5


def test_a_planted_cause_among_twelve_is_found_in_five_runs_worth_of_new_work(tmp_path: Path) -> None:
    project = Project(tmp_path, str(tmp_path / "store"))
    found = project.json("bisect", GOOD, WORSE, "--metric", "sft.loss", "--max-seeds", "3")
    assert len(found["differences"]) == 12
    kinds = {one["kind"]: one["names"] for one in found["differences"]}
    assert kinds["data"] == ["demo_rows"]
    assert [cause["names"] for cause in found["causes"]] == [[PLANTED]]
    effect = found["causes"][0]["effect"]
    assert 0 < effect["low"] < effect["value"] < effect["high"]
    assert found["without_causes"] == "good"
    assert len(found["tried"]) <= 6
    assert found["halves_seconds"] <= MOST_RUNS * found["run_seconds"]
    assert "What moved sft.loss" in Path(found["page"]).read_text(encoding="utf-8")
