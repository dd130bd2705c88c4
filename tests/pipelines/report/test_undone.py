"""What stages that ended well left undone: on the screen at the end of a run, and on its page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from components.contract.errors import InputError
from components.contract.registry import components
from pipelines.report.page import render_page
from pipelines.report.undone import undone, undone_lines
from pipelines.runs import summary
from pipelines.runs.runs import RunResult
from tests.pipelines.report.made import MadeRun

COUNTS = {"lost_prompts": 0.0, "skipped_updates": 2.0, "dropped_groups": 37.0, "num_failed": 1234.0}


def made(folder: Path, stages: int = 1, **metrics: float) -> MadeRun:
    run = MadeRun(folder)
    for number in range(stages):
        stage = run.add(f"rl{number}", "rl")
        assert stage.entry is not None
        stage.entry["metrics"] = dict(metrics)
    return run


def test_counts_above_zero_in_the_order_of_the_declaration() -> None:
    assert undone("rl", COUNTS) == [("updates skipped", 2), ("verifications failed", 1234)]
    assert undone("rl", {"pass_rate": 0.5}) == undone("no-such-component", COUNTS) == undone("sft", COUNTS) == []
    assert undone("evaluate", {"num_failed": 3.0}) == [("verifications failed", 3)]
    lines = undone_lines([("a", "rl", COUNTS), ("b", "sft", COUNTS), ("c", "rl", {"lost_prompts": 1})])
    assert list(lines) == ["a: updates skipped 2, verifications failed 1,234", "c: prompts lost 1"]


def test_the_page_has_a_row_for_each_and_no_section_without_any(tmp_path: Path) -> None:
    page = render_page(made(tmp_path, **COUNTS).data)
    assert "Left undone" in page and "verifications failed" in page and "1,234" in page and "prompts lost" not in page
    assert "Left undone" not in render_page(made(tmp_path / "clean", lost_prompts=0.0).data)


@pytest.mark.parametrize("stages, listed", [(0, 0), (1, 1), (10, 8)])
def test_the_end_of_a_green_run_tells(
    stages: int, listed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = made(tmp_path, stages, **COUNTS).data
    monkeypatch.setattr(summary, "collect", lambda store, run_id: data)
    monkeypatch.setattr(summary, "store_option", lambda store: "")
    store: Any = None
    summary.print_ending(store, RunResult("made-1", "succeeded", 0, {}, Path("page"), None))
    out = capsys.readouterr().out
    status = next(line for line in out.splitlines() if line.startswith("run "))
    assert ("left something undone" in status) == bool(stages) and "succeeded" in status
    assert out.count("undone  rl") == listed
    assert ("and 2 more stages: posttrain show made-1" in out) == (stages == 10)


def test_a_component_declares_words_for_its_own_metrics_only() -> None:
    with pytest.raises(InputError, match="undone names no metric of it: strange"):
        replace(components().get("rl"), undone={"strange": "strange things"})
