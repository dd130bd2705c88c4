"""Progress of a run on screen: a live tree in a terminal, plain lines when piped."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from components.contract.headlines import in_order
from components.contract.job import Job
from components.contract.terminal import visible, visible_line
from pipelines.runs.alarms import Alarms, lasting_text
from pipelines.runs.headlines import metrics_text

if TYPE_CHECKING:
    from rich.console import RenderableType

PLAIN_SECONDS = 10.0
BAR_WIDTH = 20
ECHO_WIDTH = 3  # left free, since a terminal's echo of Ctrl-C on a full line would wrap and leave a torn tree
MARKS = {
    "queued": ("·", "dim"),
    "running": ("▶", "cyan"),
    "done": ("✓", "green"),
    "cached": ("≡", "green"),
    "skipped": ("○", "dim"),
    "failed": ("✗", "bold red"),
    "blocked": ("–", "dim"),
    "waiting": ("?", "yellow"),
    "stopped": ("■", "yellow"),
}
WORDS = {"cached": "cached", "skipped": "skipped", "stopped": "stopped", "blocked": "not run"}
LIVELY = ("running", "waiting", "failed")


class RunView(Protocol):
    """Shows progress events of a run and asks a person to approve stages."""

    def event(self, event: dict[str, Any]) -> None:
        """Handle one progress event."""
        ...

    def ask(self, job: Job) -> bool | None:
        """Ask for approval; None if nobody can be asked here."""
        ...

    def showing(self) -> Any:
        """Return a context manager during which the view is on screen."""
        ...


@dataclass
class StageState:
    """State of one stage on screen."""

    name: str
    component: str
    state: str = "queued"
    done: int = 0
    total: int = 0
    metrics: dict[str, float] = field(default_factory=dict)
    note: str = ""
    started: float | None = None
    seconds: float | None = None
    alarms: Alarms = field(default_factory=Alarms)

    def take(self, event: dict[str, Any]) -> None:
        """Update from one event."""
        kind = event["event"]
        if kind == "started":
            self.state, self.started, self.seconds, self.note = "running", event["time"], None, ""
            if event.get("resumed_from") is not None:
                self.note = f"resumed from step {event['resumed_from']}"
            if moved := event.get("moved"):
                self.note += f" of run {moved['run']}, state {moved['digest'][:12]} verified"
        elif kind == "progress":
            self.state = "running"
            self.done, self.total, self.metrics = event["done"], event["total"], event["metrics"]
        elif kind == "finished":
            self.state = {"skipped": "skipped"}.get(event["status"], "cached" if event["cache"] == "hit" else "done")
            self.state = "failed" if event.get("failed") else self.state
            self.metrics, self.note = in_order(self.component, event["metrics"]), event.get("reason") or ""
            self.seconds = 0.0 if self.state == "cached" else event["seconds"]
        elif kind in ("failed", "blocked"):
            self.state, self.note, self.seconds = kind, event.get("error", ""), self.elapsed
        elif kind == "left":
            self.state, self.note, self.seconds = "stopped", event["error"], self.elapsed
        elif kind == "approval":
            self.state, self.note = "waiting", f"needs approval: posttrain approve {event['run_id']} {self.name}"
        elif kind == "retry":
            self.note = f"retry {event['attempt']} in {event['seconds']:.0f} s: {event['error']}"
        elif kind in ("gate", "waiting", "warning"):
            self.note = {"gate": f"checking {event.get('port')}"}.get(kind, event.get("text", ""))
        self.note = visible_line(self.note)

    @property
    def elapsed(self) -> float | None:
        """Return the seconds the stage took, or has taken so far."""
        if self.seconds is not None:
            return self.seconds
        return time.time() - self.started if self.started else None


class PlainView:
    """One line for each change of state; progress at most every ten seconds. For logs and pipes."""

    def __init__(self, jobs: list[Job], stream: TextIO = sys.stdout, *, named: bool = True) -> None:
        """With `named` each line begins with its stage; a log of a single stage omits it."""
        self._states = {job.stage: StageState(job.stage, job.component) for job in jobs}
        self._stream, self._named = stream, named
        self._printed: dict[str, tuple[str, float]] = {}

    @contextmanager
    def showing(self) -> Iterator[None]:
        """Nothing to set up: lines are printed as events come."""
        yield

    def ask(self, job: Job) -> bool | None:
        """Return None: a pipe has nobody to ask."""
        return None

    def event(self, event: dict[str, Any]) -> None:
        """Print a line when the stage's state changed, or when its progress is ten seconds old."""
        state = self._states[event["stage"]]
        if event["event"] == "alarm":
            self._print_alarm(state, event)
            return
        state.take(event)
        last_state, last_time = self._printed.get(state.name, ("", 0.0))
        changed = state.state != last_state or event["event"] in ("retry", "warning", "waiting")
        if changed or (event["event"] == "progress" and time.monotonic() - last_time > PLAIN_SECONDS):
            self._printed[state.name] = (state.state, time.monotonic())
            print(plain_line(state, named=self._named), file=self._stream, flush=True)

    def _print_alarm(self, state: StageState, event: dict[str, Any]) -> None:
        for line in state.alarms.take(event):
            print(f"{state.name:<24} {line}" if self._named else line, file=self._stream, flush=True)


def plain_line(state: StageState, *, named: bool = True) -> str:
    """Return one line about a stage."""
    parts = [f"{state.name:<24} {state.state:<8}" if named else f"{state.state:<8}"]
    if state.state == "running" and state.total:
        parts.append(f"{state.done}/{state.total}")
    if state.elapsed is not None and state.state != "queued":
        parts.append(f"{state.elapsed:.1f} s")
    parts += [metrics_text(state.metrics), state.note, lasting_text(state.alarms.lasting)]
    return "  ".join(part for part in parts if part).rstrip()


class LiveView:
    """A tree of stages with progress bars and metrics that redraws in place.

    If the terminal has fewer rows than the run has stages, only running, waiting and failed ones are shown and the
    others counted; the whole tree stays on screen after the run.
    """

    def __init__(self, title: str, jobs: list[Job]) -> None:
        self._title = title
        self._states = {job.stage: StageState(job.stage, job.component) for job in jobs}
        self._groups: dict[str, list[str]] = {}
        for job in jobs:
            self._groups.setdefault(job.group or job.stage, []).append(job.stage)
        self._console: Any = None
        self._live: Any = None
        self._ended = False

    @contextmanager
    def showing(self) -> Iterator[None]:
        """Keep the tree on screen; its last state remains after the run."""
        from rich.console import Console
        from rich.live import Live

        self._console = Console()
        self._live = Live(get_renderable=self._draw, console=self._console, refresh_per_second=5, transient=False)
        with self._live:
            try:
                yield
            finally:
                self._ended = True
                for state in self._states.values():
                    if state.state == "running":  # only a stop leaves any
                        state.state, state.seconds = "stopped", state.elapsed

    def event(self, event: dict[str, Any]) -> None:
        """Handle one event; the next redraw shows it, and alarms stay above the tree."""
        if event["event"] == "alarm":
            for line in self._states[event["stage"]].alarms.take(event):
                style = "red" if event["alarm"]["cleared"] is None else "green"
                if self._console:
                    self._console.print(f"{event['stage']}: {line}", style=style, markup=False, highlight=False)
            return
        self._states[event["stage"]].take(event)
        if event["event"] == "warning" and event.get("kept") and self._console:
            self._console.print(f"{event['stage']}: {visible(event['text'])}", markup=False, highlight=False)

    def ask(self, job: Job) -> bool | None:
        """Ask at the terminal, pausing the tree."""
        from rich.markup import escape
        from rich.prompt import Confirm

        assert job.approve is not None and self._live is not None
        self._live.stop()
        try:
            return Confirm.ask(f"[yellow]{job.stage}[/]: {escape(visible(job.approve.message))}")
        finally:
            self._live.start(refresh=True)

    def _draw(self) -> RenderableType:
        from rich.console import Group
        from rich.constrain import Constrain
        from rich.table import Table
        from rich.text import Text

        rows: list[tuple[str, StageState | None]] = []  # a stage, or the heading of a group
        for group, names in self._groups.items():
            branch = "├─ "
            if names != [group]:
                rows.append((f"├─ {group}", None))
                branch = "│  ├─ "
            rows += [(branch, self._states[name]) for name in names]
        folded = not self._ended and len(rows) + 2 > self._console.size.height
        table = Table.grid(padding=(0, 2))
        table.add_column(no_wrap=True)
        table.add_column(no_wrap=True)
        table.add_column(no_wrap=True, justify="right", min_width=7)
        table.add_column()  # the column that narrows; its texts are cut, not wrapped
        for branch, state in rows:
            if state is None and not folded:
                table.add_row(Text(branch, style="bold"))
            elif state is not None and not (folded and state.state not in LIVELY):
                table.add_row(*stage_row(state, branch))
        tree = Constrain(table, self._console.size.width - ECHO_WIDTH)
        return Group(Text(self._title, style="bold"), tree, *([self._counts()] if folded else []))

    def _counts(self) -> RenderableType:
        from rich.text import Text

        quiet = Counter(state.state for state in self._states.values() if state.state not in LIVELY)
        return Text("└─ " + ", ".join(f"{quiet[state]} {state}" for state in MARKS if quiet[state]), style="dim")


def stage_row(state: StageState, branch: str) -> list[RenderableType]:
    """Return the cells of one stage in the tree: name, component, seconds, and details."""
    from rich.text import Text

    mark, style = MARKS[state.state]
    label = Text.assemble((branch, "dim"), (f"{mark} ", style), state.name)
    seconds = f"{state.elapsed:.1f} s" if state.elapsed is not None else ""
    detail = Text(no_wrap=True, overflow="ellipsis")
    if lasting := lasting_text(state.alarms.lasting):
        detail.append(f"{lasting}  ", "bold red")
    if state.state == "running" and state.total:
        filled = min(BAR_WIDTH * state.done // state.total, BAR_WIDTH)
        detail.append("━" * filled, "cyan").append("╌" * (BAR_WIDTH - filled), "dim")
        detail.append(f" {state.done:>{len(str(state.total))}}/{state.total}  ")
    if state.state in ("failed", "waiting"):
        detail.append((state.note.splitlines() or [""])[0], style)
    else:
        parts = (WORDS.get(state.state, ""), state.note, metrics_text(state.metrics))
        detail.append("  ".join(part for part in parts if part), "" if state.state == "running" else "dim")
    return [label, Text(state.component, style="dim"), Text(seconds, style="dim"), detail]


def choose_view(title: str, jobs: list[Job], *, quiet_stdout: bool = False) -> RunView:
    """Return the live tree in a terminal, else plain lines (on stderr when stdout is for JSON)."""
    stream = sys.stderr if quiet_stdout else sys.stdout
    if stream is sys.stdout and stream.isatty():
        return LiveView(title, jobs)
    return PlainView(jobs, stream)
