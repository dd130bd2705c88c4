"""Forks: a forked stage beside the one that it goes on from, step by step; equal before the fork, paired behind it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from components.contract.artifacts import HISTORY_FILE
from components.contract.display import Curves
from components.runtime.costs.words import hours_text
from pipelines.report.collect import RunData, Stage, declared
from pipelines.report.content import Figure, Figures, Heading, Legend, PageSection, Paragraph, Part, Rows, Value
from pipelines.report.frame import Axes, padded
from pipelines.report.settings import differing, settings_table
from pipelines.report.svg import Series, line_chart

BLOCKS = 10
"""Parts of the steps behind a fork whose means the interval is over: neighbouring steps are not independent."""
LEAST_STEPS = 2 * BLOCKS
METRICS = "metrics"
"""Output port with the history."""
TITLE = "From the fork on"
LEAD = (
    "The same steps of both, the fork minus the run that it is of. Intervals are 95 % t intervals over "
    f"{BLOCKS} equal parts of these steps, where there are at least {LEAST_STEPS}: they tell how steadily both differ "
    "in this one run, not what another seed would give."
)


@dataclass(frozen=True)
class Moved:
    """One column of the history, over the steps behind a fork that both sides have."""

    column: str
    title: str
    before: float
    """Mean of the run that was forked."""
    now: float
    """Mean of the fork."""
    steps: Sequence[tuple[float, float]]
    """(step, fork minus forked)."""
    low: float | None = None
    high: float | None = None

    @property
    def difference(self) -> float:
        """Return the mean of the paired differences."""
        return sum(value for _, value in self.steps) / len(self.steps)

    def to_json(self) -> dict[str, Any]:
        """Return it for scripts."""
        ends = {} if self.low is None else {"low": self.low, "high": self.high}
        means = {"forked": self.before, "fork": self.now, "difference": self.difference, **ends}
        return {"metric": self.column, **means, "steps": len(self.steps)}


@dataclass(frozen=True)
class ForkPair:
    """A stage and its fork."""

    sides: tuple[str, str]
    """Names of the run that was forked, and of the fork."""
    stages: tuple[Stage, Stage]
    step: int
    """The last step that both share."""

    @property
    def name(self) -> str:
        """Return the stage."""
        return self.stages[1].name

    @property
    def rows(self) -> tuple[dict[float, dict[str, float]], dict[float, dict[str, float]]]:
        """Return the history of both by step."""
        found = [{row["step"]: row for row in stage.lines(METRICS, HISTORY_FILE)} for stage in self.stages]
        return found[0], found[1]

    def shared(self) -> tuple[int, int]:
        """Return how many rows before the fork are equal in all columns, of how many."""
        before, now = self.rows
        steps = [step for step in before if step <= self.step]
        return sum(before[step] == now.get(step) for step in steps), len(steps)

    def moved(self) -> list[Moved]:
        """Return the columns that the component's charts show: they are what a training is judged by."""
        before, now = self.rows
        steps = sorted(step for step in before if step > self.step and step in now)
        found = []
        for column, title in _columns(self.stages[1]).items():
            both = [step for step in steps if column in before[step] and column in now[step]]
            if both:
                first, second = (sum(rows[step][column] for step in both) / len(both) for rows in (before, now))
                pairs = [(step, now[step][column] - before[step][column]) for step in both]
                low, high = _interval([value for _, value in pairs])
                found.append(Moved(column, title, first, second, pairs, low, high))
        return found

    def to_json(self) -> dict[str, Any]:
        """Return the pair for scripts."""
        equal, rows = self.shared()
        about = {"stage": self.name, "step": self.step, "sides": list(self.sides)}
        return {**about, "rows_before": rows, "equal_before": equal, "metrics": [one.to_json() for one in self.moved()]}


def fork_pairs(first: RunData, other: RunData) -> Iterator[ForkPair]:
    """Yield the stages of two runs of which one goes on from the other, or both from the same checkpoint."""
    sides = (str(first.run["run_id"]), str(other.run["run_id"]))
    marks = {(stage.entry or {}).get("fingerprint"): stage for stage in first.stages if stage.entry}
    forks = {(fork["fingerprint"], fork["step"]): stage for stage in first.stages if (fork := fork_of(stage))}
    own = {(stage.entry or {}).get("fingerprint"): stage for stage in other.stages if stage.entry}
    for stage in other.stages:
        fork = fork_of(stage)
        if fork and (forked := marks.get(fork["fingerprint"])):
            yield ForkPair(sides, (forked, stage), fork["step"])
        elif fork and (beside := forks.get((fork["fingerprint"], fork["step"]))) and _differ(beside, stage):
            yield ForkPair(sides, (beside, stage), fork["step"])
    for (mark, step), stage in forks.items():
        if forked := own.get(mark):
            yield ForkPair((sides[1], sides[0]), (forked, stage), step)


def fork_of(stage: Stage) -> Mapping[str, Any] | None:
    """Return the record of a stage that was forked; None of others."""
    found: Mapping[str, Any] | None = (stage.entry or {}).get("fork")
    return found


def _differ(a: Stage, b: Stage) -> bool:
    return bool(a.entry and b.entry and a.entry["fingerprint"] != b.entry["fingerprint"])


def _columns(stage: Stage) -> dict[str, str]:
    component = declared(stage.component)
    sections = component.report if component else ()
    return {column: title for one in sections if isinstance(one, Curves) for column, title in one.columns.items()} or {
        "loss": "loss"
    }


def _interval(values: Sequence[float]) -> tuple[float | None, float | None]:
    """Return the interval of the mean by batch means, none of a few steps."""
    if len(values) < LEAST_STEPS:
        return None, None
    from components.measure.intervals import seed_interval

    bounds = [len(values) * index // BLOCKS for index in range(BLOCKS + 1)]
    parts = [values[start:end] for start, end in pairwise(bounds)]
    found = seed_interval([sum(part) / len(part) for part in parts])
    return (found.low, found.high) if math.isfinite(found.low) else (None, None)


def fork_section(data: RunData) -> PageSection:
    """Return the fork that a run is, beside the run that it is of; no section of other runs."""
    fork = data.run.get("fork")
    if not fork:
        return PageSection("Fork", [])
    record = next((found for stage in data.stages if (found := fork_of(stage))), None)
    saved = f" These steps took {hours_text(record['seconds'] / 3600)}, and were not done again." if record else ""
    place = f"{fork['stage']}@{fork['step']}"
    lead = f"Of run {fork['run']}, from {place} on: its stages before, and the steps up to {fork['step']}, are shared."
    parts: list[Part] = [Paragraph(lead + saved, "lead")]
    if data.forked is not None:
        titles = [str(data.forked.run["run_id"]), str(data.run["run_id"])]
        parts += settings_table(titles, differing([data.forked.stages, data.stages]), of="run")
        parts += [part for pair in fork_pairs(data.forked, data) for part in pair_parts(pair)]
    else:
        parts.append(Paragraph(f"Run {fork['run']} is gone from the store, so nothing can be shown beside it."))
    return PageSection("Fork", parts)


def sides_forks(runs: Sequence[RunData]) -> PageSection:
    """Return the forks among runs, each beside the first; no section without any."""
    pairs = [pair for other in runs[1:] for pair in fork_pairs(runs[0], other)]
    return PageSection(TITLE, [part for pair in pairs for part in pair_parts(pair)])


def pair_parts(pair: ForkPair) -> Iterator[Part]:
    """Yield a pair's table and charts: both histories, then their differences from the fork on."""
    equal, rows = pair.shared()
    moved = pair.moved()
    yield Heading(f"{pair.name}: {pair.sides[1]} minus {pair.sides[0]}")
    same = "all" if equal == rows else f"{equal} of"
    yield Paragraph(f"Before the fork {same} {rows} rows of the history are equal in every number. {LEAD}", "lead")
    head = ["metric", pair.sides[0], pair.sides[1], "difference", "steps"]
    yield Rows(head, [[one.title, _text(one.before), _text(one.now), _change(one), len(one.steps)] for one in moved])
    yield Legend([(name, place) for place, name in enumerate(pair.sides)])
    figures = [_both(pair, one) for one in moved] + [_paired(pair, one) for one in moved if _is_seen(one)]
    yield Figures([figure for figure in figures if figure.chart])


def _both(pair: ForkPair, one: Moved) -> Figure:
    lines = [
        Series(name, [(step, row[one.column]) for step, row in rows.items() if one.column in row], None, place)
        for place, (name, rows) in enumerate(zip(pair.sides, pair.rows, strict=True))
    ]
    values = [value for line in lines for _, value in line.points]
    axes = Axes(x_label="step", x_marks=[pair.step], y_range=padded(min(values), max(values)))
    return Figure(line_chart(lines, axes), one.title)


def _paired(pair: ForkPair, one: Moved) -> Figure:
    values = [0.0, *(value for _, value in one.steps)]
    axes = Axes(x_label="step", y_range=padded(min(values), max(values)))
    zero = Series("no difference", [(step, 0.0) for step, _ in one.steps], None, 0, thin=True)
    return Figure(line_chart([zero, Series(pair.name, one.steps, None, 1)], axes), f"{one.title}: difference by step")


def _is_seen(one: Moved) -> bool:
    return len(one.steps) > 1 and any(value for _, value in one.steps)


def _text(value: float) -> str:
    return f"{value:.4g}"


def _change(one: Moved) -> Value:
    interval = "" if one.low is None else f"[{one.low:+.2g}, {one.high:+.2g}]"
    return Value(f"{one.difference:+.3g}", interval)
