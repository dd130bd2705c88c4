"""The trials of a sweep at the end of a run: every trial, the best one first to see, hostile values as text."""

from __future__ import annotations

import io
import json
from pathlib import Path

from rich.console import Console

from pipelines.runs.trials import trial_tables
from tests.pipelines.report.made import MadeRun


def shown(run: MadeRun) -> str:
    console = Console(file=io.StringIO(), width=100)
    for part in trial_tables(run.data):
        console.print(part, markup=False)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def sweep(value: float | None, rate: object = 0.1) -> dict[str, str]:
    trials = [
        {"number": 1, "params": {"rate": rate}, "value": 0.25, "status": "stopped_early", "is_best": False},
        {"number": 2, "params": {"rate": 0.01}, "value": value, "status": "finished", "is_best": value is not None},
    ]
    importances = [{"parameter": "rate", "importance": 1.0}]
    return {
        "trials.json": json.dumps({"trials": trials, "note": "Trial 2 is the best."}),
        "importances.json": json.dumps({"importances": importances, "note": ""}),
    }


def test_the_last_stage_of_a_sweep_tells_how_every_trial_ended(tmp_path: Path) -> None:
    run = MadeRun(tmp_path)
    for name, value in (("sweep-draw", None), ("sweep-best", 0.75)):
        stage = run.add(name, "sweep", files=sweep(value))
        stage.files["report"] = stage.files.pop("metrics")
    rows = [line.split("│")[1:-1] for line in shown(run).splitlines() if line.startswith("│")]
    assert [[cell.strip() for cell in row] for row in rows] == [
        ["1", "0.1", "0.2500", "stopped early"],
        ["2", "0.01", "0.7500", "finished"],
        ["rate", "100.0"],
    ]
    assert "Trial 2 is the best." in shown(run)


def test_what_a_recipe_names_reaches_a_terminal_as_text(tmp_path: Path) -> None:
    run = MadeRun(tmp_path)
    stage = run.add("sweep-best", "sweep", files=sweep(0.5, rate="[red]\x1b[31m"))
    stage.files["report"] = stage.files.pop("metrics")
    assert "[red]" in shown(run) and "\x1b" not in shown(run)


def test_a_run_without_a_sweep_has_none(tmp_path: Path) -> None:
    run = MadeRun(tmp_path)
    run.train([3.0, 2.0])
    assert shown(run) == ""
