"""Alarms on screen: each once, red while it lasts, and nothing of a text is markup."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from components.contract.job import Job
from pipelines.runs.view import PlainView, StageState, stage_row

JOB = Job(run_id="r", recipe="x", stage="sft", component="sft", params={}, inputs={}, seed=0, store="s")


def event(cleared: int | None = None, text: str = "the loss rose") -> dict[str, Any]:
    alarm = {"name": "loss_exploded", "since": 3, "raised": 7, "text": text, "helps": "lower lr (100)", "bound": 2.0}
    return {"event": "alarm", "stage": "sft", "time": 0.0, "alarm": {**alarm, "cleared": cleared}}


def test_plain_lines_tell_an_alarm_once_and_that_it_is_over() -> None:
    stream = io.StringIO()
    view = PlainView([JOB], stream)
    for told in (event(), event(), event(9), event(9)):  # a retry tells it again
        view.event(told)
    assert [line.split(None, 1)[1] for line in stream.getvalue().splitlines()] == [
        "alarm loss_exploded since step 3: the loss rose",
        "usually helps: lower lr (100)",
        "alarm loss_exploded since step 3, over at step 9: the loss rose",
    ]


def test_the_tree_marks_a_stage_in_red_while_an_alarm_lasts() -> None:
    state = StageState("sft", "sft", state="running", done=5, total=10)
    state.alarms.take(event(text="[bold]not markup[/]"))
    console = Console(file=io.StringIO(), force_terminal=True, width=100, color_system="standard")
    console.print(stage_row(state, "")[3])
    assert "\x1b[1;31m! loss_exploded" in console.file.getvalue()  # type: ignore[attr-defined]
    state.alarms.take(event(cleared=9))
    assert "loss_exploded" not in str(stage_row(state, "")[3])
