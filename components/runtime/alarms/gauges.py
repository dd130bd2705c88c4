"""Gauges: each reduces the rows of a history to one figure per row, by a rule that a component declares.

They keep only what they need, so that a row costs the same at any length of the history.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from components.contract.alarms import Alone, Growth, Level, NotFinite, Parting, Quotient, Remainder, Rule, Stillness

Row = Mapping[str, float]


@dataclass(frozen=True)
class Reading:
    """A rule's figure for one row, and what a text may show of it."""

    figure: float
    shown: Mapping[str, str]


class Gauge(Protocol):
    """Takes the rows of one history in order."""

    def take(self, row: Row, lost: Collection[str]) -> Reading | None:
        """Return the figure, or None if the row says nothing about it; `lost` are columns that were not finite."""
        ...


def gauge_of(rule: Rule) -> Gauge:
    """Return a fresh gauge."""
    match rule:
        case Level():
            return _LevelGauge(rule)
        case Growth():
            return _GrowthGauge(rule)
        case Remainder():
            return _RemainderGauge(rule)
        case Quotient():
            return _QuotientGauge(rule)
        case Stillness():
            return _StillnessGauge(rule)
        case Parting():
            return _PartingGauge(rule)
        case Alone():
            return _AloneGauge(rule)
        case NotFinite():
            return _NotFiniteGauge(rule)


def number_text(value: float) -> str:
    """Return a number for people: three digits, and no exponent up to a million."""
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e6 else f"{value:.3g}"


class _Mean:
    """The mean of the last `window` values; None before there are so many."""

    def __init__(self, window: int) -> None:
        self._values: deque[float] = deque(maxlen=window)

    def take(self, value: float) -> float | None:
        self._values.append(value)
        full = len(self._values) == self._values.maxlen
        return math.fsum(self._values) / len(self._values) if full else None


class _LevelGauge:
    def __init__(self, rule: Level) -> None:
        self._column = rule.column

    def take(self, row: Row, lost: Collection[str]) -> Reading | None:
        value = row.get(self._column)
        return None if value is None else Reading(value, {"value": number_text(value)})


class _GrowthGauge:
    def __init__(self, rule: Growth) -> None:
        self._column, self._mean = rule.column, _Mean(rule.window)
        self._best: float | None = None

    def take(self, row: Row, lost: Collection[str]) -> Reading | None:
        value = row.get(self._column)
        if value is None:
            return None
        best = value if self._best is None else self._best
        mean = self._mean.take(value)
        self._best = best if mean is None else min(best, mean)
        figure = (value - best) / max(abs(best), 1.0)
        return Reading(figure, {"value": number_text(value), "best": number_text(best)})


class _RemainderGauge:
    def __init__(self, rule: Remainder) -> None:
        self._rule, self._mean = rule, _Mean(rule.window)
        self._start: float | None = None

    def take(self, row: Row, lost: Collection[str]) -> Reading | None:
        value = row.get(self._rule.column)
        if value is None:
            return None
        if self._start is None:
            self._start = self._mean.take(value)
            return None
        if self._start < self._rule.floor + 1:
            return None
        figure = (value - self._rule.floor) / (self._start - self._rule.floor)
        return Reading(figure, {"value": number_text(value), "start": number_text(self._start)})


class _QuotientGauge:
    def __init__(self, rule: Quotient) -> None:
        self._rule = rule

    def take(self, row: Row, lost: Collection[str]) -> Reading | None:
        part, whole = row.get(self._rule.part), row.get(self._rule.whole)
        if part is None or not whole:
            return None
        return Reading(part / whole, {"value": f"{100 * part / whole:.0f} %"})


class _StillnessGauge:
    def __init__(self, rule: Stillness) -> None:
        self._rule = rule
        self._last: float | None = None

    def take(self, row: Row, lost: Collection[str]) -> Reading | None:
        mean, spread = row.get(self._rule.mean), row.get(self._rule.spread)
        if mean is None or spread is None:
            return None
        change = 0.0 if self._last is None else abs(mean - self._last)
        self._last = mean
        return Reading(max(spread, change), {"value": number_text(mean)})


class _PartingGauge:
    def __init__(self, rule: Parting) -> None:
        self._rule = rule
        self._up, self._down = _Mean(rule.window), _Mean(rule.window)
        self._best = -math.inf
        self._up_then = -math.inf

    def take(self, row: Row, lost: Collection[str]) -> Reading | None:
        if self._rule.up not in row or self._rule.down not in row:
            return None
        up, down = self._up.take(row[self._rule.up]), self._down.take(row[self._rule.down])
        if up is None or down is None:
            return None
        if down >= self._best:
            self._best, self._up_then = down, up
        fell = self._best - down if up > self._up_then else 0.0
        return Reading(fell, {"value": number_text(down), "best": number_text(self._best)})


class _Rise:
    """How far the mean of the last values is above that of the first ones, in their standard deviations."""

    LEAST = 1e-3
    """Deviation below which a column counts as still at its start, so that rounding does not look like a rise."""

    def __init__(self, window: int) -> None:
        self._window, self._first = window, list[float]()
        self._mean = _Mean(window)
        self.start = self.now = math.nan

    def take(self, value: float) -> float | None:
        if len(self._first) < self._window:
            self._first.append(value)
        mean = self._mean.take(value)
        if mean is None:
            return None
        self.start, self.now = math.fsum(self._first) / self._window, mean
        squares = math.fsum((one - self.start) ** 2 for one in self._first)
        return (mean - self.start) / max(math.sqrt(squares / self._window), self.LEAST)


class _AloneGauge:
    def __init__(self, rule: Alone) -> None:
        self._rule, self._rises = rule, dict[str, _Rise]()

    def take(self, row: Row, lost: Collection[str]) -> Reading | None:
        rises: dict[str, float] = {}
        for name, value in row.items():
            is_part = name.startswith(self._rule.prefix) and name not in self._rule.without
            if not (is_part or name in self._rule.beside):
                continue
            rise = self._rises.setdefault(name, _Rise(self._rule.window)).take(value)
            if rise is not None:
                rises[name] = rise
        parts = [name for name in rises if name not in self._rule.beside]
        if len(rises) < 2 or not parts:
            return None
        highest = max(parts, key=lambda name: rises[name])
        others = max(rise for name, rise in rises.items() if name != highest)
        shown = self._rises[highest]
        part = highest.removeprefix(self._rule.prefix)
        texts = {"part": part, "value": number_text(shown.now), "start": number_text(shown.start)}
        return Reading(rises[highest] if others < 1.0 else 0.0, texts)


class _NotFiniteGauge:
    def __init__(self, rule: NotFinite) -> None:
        self._columns = rule.columns

    def take(self, row: Row, lost: Collection[str]) -> Reading | None:
        found = [column for column in self._columns if column in lost]
        if not found and not any(column in row for column in self._columns):
            return None
        return Reading(len(found), {"value": " and ".join(found)})
