"""Alarms of whole recipes: a learning rate of 100, and none where nothing is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.command_line import MICRO, Project

Finished = tuple[Project, dict[str, Any]]
EXPLODING = ("--set", "stages.sft.with.optimizer.peak_learning_rate=100", "--set", "sft_steps=8")


def test_a_healthy_recipe_raises_none(finished: Finished) -> None:
    assert [stage["alarms"] for stage in finished[1]["stages"]] == [[]] * len(finished[1]["stages"])


def test_a_learning_rate_of_100_stops_the_run_where_the_recipe_says_so(copied: Finished) -> None:
    project, _ = copied
    out = project.call("run", str(MICRO), *EXPLODING, "--set", "stages.sft.on_alarm=stop", code=1)
    assert "alarm loss_exploded since step" in out
    assert "lower stages.sft.with.optimizer.peak_learning_rate (100)" in out
    assert "sft failed: stage 'sft': stopped by alarm loss_exploded" in out
    shown = {stage["name"]: stage for stage in project.json("show", "latest")["stages"]}
    assert (shown["sft"]["status"], shown["rl"]["status"]) == ("failed", "blocked")
    assert list(shown["sft"]["kept"]) == ["metrics"]
    page = Path(project.call("report", "latest").strip()).read_text()
    assert "loss exploded" in page
    assert "<figcaption>loss</figcaption>" in page  # the curve of what was kept
    logs = (Path(project.store).parent / "logs").glob("*/sft.log")
    assert any("alarm loss_exploded" in path.read_text() for path in logs)
