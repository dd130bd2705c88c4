"""Progress of a run for a notebook: its stages with bars, redrawn in place; plain lines where there is no notebook."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial
from threading import Event, Thread
from typing import Any, Protocol

from components.contract.job import Job
from components.contract.terminal import visible
from pipelines.client.pages import page
from pipelines.runs.alarms import lasting_text
from pipelines.runs.headlines import metrics_text
from pipelines.runs.view import LIVELY, MARKS, WORDS, PlainView, RunView, StageState, plain_line

REDRAW_SECONDS = 0.5
MOST_SHOWN = 24
"""Stages beyond which only those with something to see are shown, and the others counted."""


class Handle(Protocol):
    """What IPython's display returns."""

    def update(self, shown: Any) -> None:
        """Show something in the place of what was shown."""
        ...


def make_view(title: str, jobs: Sequence[Job], *, shown: bool = True) -> RunView:
    """Return the view of a run: none, one for a notebook, or plain lines on standard error."""
    if not shown:
        return SilentView()
    if in_notebook():
        from IPython.display import display

        return NotebookView(title, jobs, partial(display, display_id=True))
    return PlainView(list(jobs), sys.stderr)


def in_notebook() -> bool:
    """Return whether this process is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return getattr(shell, "kernel", None) is not None


class SilentView:
    """Shows nothing and asks nobody."""

    def event(self, event: dict[str, Any]) -> None:
        """Drop the event."""

    def ask(self, job: Job) -> bool | None:
        """Return None: nobody is asked."""
        return None

    @contextmanager
    def showing(self) -> Iterator[None]:
        """Nothing to set up."""
        yield


class NotebookView(SilentView):
    """A table of stages below the cell, with the state, a bar, the seconds and the newest numbers of each."""

    def __init__(self, title: str, jobs: Sequence[Job], display: Any) -> None:
        """`display` shows an object and returns the handle that replaces it."""
        self._title, self._display = title, display
        self._states = {job.stage: StageState(job.stage, job.component) for job in jobs}
        self._told: list[tuple[str, bool]] = []
        self._changed, self._ended = Event(), Event()

    @contextmanager
    def showing(self) -> Iterator[None]:
        """Redraw until the run is over; what is shown then stays."""
        handle: Handle = self._display(self)
        # the kernel finds the cell that output belongs to in the context
        thread = Thread(target=copy_context().run, args=(self._redraw, handle), daemon=True, name="posttrain-progress")
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()
            for state in self._states.values():
                if state.state == "running":  # only a stop leaves any
                    state.state, state.seconds = "stopped", state.elapsed
            handle.update(self)

    def event(self, event: dict[str, Any]) -> None:
        """Note one event; the next redraw shows it, and alarms stay above the table."""
        state = self._states[event["stage"]]
        if event["event"] == "alarm":
            lines = state.alarms.take(event)
            self._told += [(f"{state.name}: {line}", event["alarm"]["cleared"] is None) for line in lines]
        else:
            state.take(event)
            if event["event"] == "warning" and event.get("kept"):
                self._told.append((f"{state.name}: {event['text']}", False))
        self._changed.set()

    def _redraw(self, handle: Handle) -> None:
        while not self._ended.wait(REDRAW_SECONDS):
            if self._changed.is_set() or any(state.state == "running" for state in self._states.values()):
                self._changed.clear()
                handle.update(self)

    def _repr_html_(self) -> str:
        states = list(self._states.values())
        lively = [state for state in states if state.state in LIVELY]
        folded = len(states) > MOST_SHOWN
        quiet = Counter(state.state for state in states if state not in lively)
        return page(
            "progress.html",
            title=self._title,
            rows=[_row(state) for state in (lively if folded else states)],
            quiet=", ".join(f"{quiet[word]} {word}" for word in MARKS if quiet[word]) if folded else "",
            told=self._told,
        )

    def __repr__(self) -> str:
        return visible("\n".join(plain_line(state) for state in self._states.values()))


def _row(state: StageState) -> dict[str, Any]:
    """Return what the page shows of a stage."""
    waits = state.state in ("failed", "waiting")
    texts = [state.note] if waits else [WORDS.get(state.state, ""), state.note, metrics_text(state.metrics)]
    seconds = state.elapsed
    return {
        "mark": MARKS[state.state][0],
        "state": state.state,
        "name": state.name,
        "component": state.component,
        "seconds": f"{seconds:.1f} s" if seconds is not None else "",
        "done": state.done,
        "total": state.total if state.state == "running" else 0,
        "alarm": lasting_text(state.alarms.lasting),
        "detail": "  ".join(" ".join(text.split()) for text in texts if text),
    }
