"""The table below a running cell: what each stage does, and nothing that a stage or a recipe could smuggle into it."""

from __future__ import annotations

from typing import Any

from components.contract.job import Job
from pipelines.client.progress import MOST_SHOWN, NotebookView, SilentView, make_view
from pipelines.runs.view import PlainView

HOSTILE = "<img src=x onerror=alert(1)> \x1b[31m \u202e"


class Shown:
    """A notebook's output area: holds what was shown last."""

    def __init__(self) -> None:
        self.pages: list[str] = []

    def __call__(self, first: Any) -> Shown:
        self.update(first)
        return self

    def update(self, shown: Any) -> None:
        self.pages.append(shown._repr_html_())


def job(stage: str) -> Job:
    return Job(run_id="r", recipe="r", stage=stage, component="c", params={}, inputs={}, seed=0, store="x")


def event(kind: str, stage: str, **facts: Any) -> dict[str, Any]:
    return {"event": kind, "stage": stage, "time": 0.0, **facts}


def test_a_stage_has_a_bar_while_it_runs_and_its_numbers_at_the_end() -> None:
    shown = Shown()
    view = NotebookView("a recipe", [job("sft"), job("rl")], shown)
    with view.showing():
        view.event(event("started", "sft"))
        view.event(event("progress", "sft", done=3, total=8, metrics={"loss": 2.5}))
        page = view._repr_html_()
        assert '<progress value="3" max="8" aria-label="sft"' in page and "3/8 loss 2.5" in page
        assert 'title="queued"' in page
        view.event(event("finished", "sft", status="done", cache="miss", metrics={"loss": 1.25}, seconds=4.0))
        view.event(event("started", "rl"))
    assert "<progress" not in shown.pages[-1] and "loss 1.25" in shown.pages[-1] and "4.0 s" in shown.pages[-1]
    assert 'title="stopped"' in shown.pages[-1], "what still ran when the view closed was stopped"
    assert "a recipe" in shown.pages[0]


def test_alarms_and_failures_are_shown_and_hostile_texts_are_only_text() -> None:
    view = NotebookView(HOSTILE, [job("rl")], Shown())
    alarm = {"name": "exploded", "since": 3, "value": 1e6, "text": HOSTILE, "helps": HOSTILE, "cleared": None}
    view.event(event("started", "rl"))
    view.event(event("alarm", "rl", alarm=alarm))
    view.event(event("alarm", "rl", alarm=alarm))
    page = view._repr_html_()
    assert page.count("usually helps") <= 1 and "! exploded" in page
    view.event(event("failed", "rl", error=HOSTILE))
    page = view._repr_html_()
    assert 'title="failed"' in page and "<img" not in page and "&lt;img" in page
    assert "\x1b" not in page and "\u202e" not in page and "\\x1b[31m" in page
    assert "\x1b" not in repr(view)


def test_of_many_stages_only_those_with_something_to_see_are_shown() -> None:
    view = NotebookView("many", [job(f"s{number}") for number in range(MOST_SHOWN + 1)], Shown())
    view.event(event("started", "s7"))
    page = view._repr_html_()
    assert "s7" in page and "s8" not in page and f"{MOST_SHOWN} queued" in page


def test_outside_of_a_notebook_lines_go_to_standard_error_or_nowhere() -> None:
    assert isinstance(make_view("r", [job("s")]), PlainView)
    silent = make_view("r", [job("s")], shown=False)
    assert isinstance(silent, SilentView) and silent.ask(job("s")) is None
