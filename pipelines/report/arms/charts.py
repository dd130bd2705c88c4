"""Bars and intervals of arms as inline SVG that is as wide as its place: positions are per cent of the width."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from pipelines.report.evaluations import Estimate
from pipelines.report.frame import ticks
from pipelines.report.svg import NUM_COLOURS

HEIGHT, MIDDLE, BAR = 18, 9, 10
AXIS_HEIGHT, AXIS_TEXT = 16, 12
NUM_TICKS = 4
NEAR_EDGE = 4
"""Per cent of the width within which the text of a tick is set inside of the chart."""


@dataclass(frozen=True)
class Scale:
    """The range of values that a bar's place shows."""

    low: float
    high: float
    percent: bool = False

    @classmethod
    def of(cls, estimates: Iterable[Estimate | None], *, percent: bool = False, whole: bool = False) -> Scale:
        """Return a scale for these estimates that has 0 in it; `whole` is the range from 0 to 1."""
        values = [value for one in estimates if one for value in (one.value, one.low, one.high) if value is not None]
        low, high = min([0.0, *values]), max([0.0, *values])
        if whole:
            return cls(0, 1, percent)
        if high == low:
            return cls(0, 1, percent)
        air = 0.04 * (high - low)
        return cls(low - air if low < 0 else 0, high + air if high > 0 else 0, percent)

    def at(self, value: float) -> str:
        """Return the place of a value, as an attribute of a shape."""
        return f"{self.share(value):.2f}%"

    def share(self, value: float) -> float:
        """Return the place of a value in per cent of the width."""
        return 100 * (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)


def bar(estimate: Estimate, scale: Scale, colour: int, single: Sequence[float] = ()) -> Markup:
    """Return a bar from 0 to a value, with its interval, and the single seeds behind it as dots."""
    left, right = sorted((scale.share(0), scale.share(estimate.value)))
    shape = Markup('<rect class="bar c{}" x="{:.2f}%" y="{}" width="{:.2f}%" height="{}"/>')
    top = MIDDLE - BAR // 2
    return _strip(
        [shape.format(colour % NUM_COLOURS, left, top, right - left, BAR), *_interval(estimate, scale, single)]
    )


def point(estimate: Estimate, scale: Scale, colour: int) -> Markup:
    """Return a value as a dot with its interval, beside the line of 0."""
    zero = Markup('<line class="zero" x1="{0}" x2="{0}" y1="0" y2="{1}"/>').format(scale.at(0), HEIGHT)
    dot = Markup('<circle class="mark c{}" cx="{}" cy="{}" r="4.5"/>')
    return _strip(
        [zero, *_interval(estimate, scale), dot.format(colour % NUM_COLOURS, scale.at(estimate.value), MIDDLE)]
    )


def axis(scale: Scale) -> Markup:
    """Return the numbers below the bars."""
    text = Markup('<text class="tick" x="{}" y="{}" text-anchor="{}">{:g}</text>')
    shown = ((value, 100 * value if scale.percent else value) for value in ticks(scale.low, scale.high, NUM_TICKS))
    return _strip(
        (text.format(scale.at(at), AXIS_TEXT, _anchor(scale.share(at)), value) for at, value in shown), AXIS_HEIGHT
    )


def _anchor(share: float) -> str:
    return "start" if share < NEAR_EDGE else "end" if share > 100 - NEAR_EDGE else "middle"


def _interval(estimate: Estimate, scale: Scale, single: Sequence[float] = ()) -> list[Markup]:
    dot = Markup('<circle class="seed" cx="{}" cy="{}" r="2.5"/>')
    dots = [dot.format(scale.at(value), MIDDLE) for value in single]
    if estimate.low is None or estimate.high is None:
        return dots
    line = Markup('<line class="reach" x1="{}" x2="{}" y1="{}" y2="{}"/>')
    low, high = scale.at(estimate.low), scale.at(estimate.high)
    ends = [line.format(end, end, MIDDLE - 4, MIDDLE + 4) for end in (low, high)]
    return [line.format(low, high, MIDDLE, MIDDLE), *ends, *dots]


def _strip(parts: Iterable[Markup], height: int = HEIGHT) -> Markup:
    """Return a drawing that says nothing which the text beside it does not."""
    whole = Markup('<svg class="strip" width="100%" height="{}" aria-hidden="true">{}</svg>')
    return whole.format(height, Markup("").join(parts))
