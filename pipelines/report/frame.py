"""The frame of a chart: size and ranges of its axes, the mapping from data to pixels, names that fit below it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from pipelines.report.labels import LINE_HEIGHT, wrapped

WIDTH, HEIGHT = 340, 210
LEFT, RIGHT, TOP, BOTTOM = 46, 12, 12, 34
NAME_PADDING, NAME_GAP, MAX_NAME_LINES = 26, 4, 3


@dataclass(frozen=True)
class Axes:
    """Labels, ranges and size of a chart's axes."""

    x_label: str = ""
    y_label: str = ""
    y_range: tuple[float, float] | None = None
    x_log2: bool = False
    x_names: Sequence[str] | None = None
    """Names for x = 0, 1, 2, ... instead of numbers."""
    x_marks: Sequence[float] = ()
    """Where dotted vertical lines divide the chart, as between rounds."""
    percent: bool = False
    width: int = WIDTH
    height: int = HEIGHT


@dataclass
class Frame:
    """The mapping from data to pixels."""

    axes: Axes
    x_low: float
    x_high: float
    y_low: float
    y_high: float
    parts: list[Markup] = field(default_factory=list)

    @property
    def floor(self) -> float:
        """Return where the plotted area ends, in pixels from the top."""
        return self.axes.height - BOTTOM

    @property
    def height(self) -> float:
        """Return the height of the chart with all lines of the names below it."""
        return self.axes.height + LINE_HEIGHT * (max((len(lines) for lines in self.names), default=1) - 1)

    @property
    def names(self) -> list[list[str]]:
        """Return the lines of each name below the chart; a name has the room of its slot and stays inside the chart."""
        found = self.axes.x_names or ()
        slot = self.x(1) - self.x(0) if len(found) > 1 else self.axes.width
        places = [self.x(index) for index in range(len(found))]
        rooms = [min(slot - NAME_GAP, 2 * x, 2 * (self.axes.width - x)) for x in places]
        return [wrapped(name, room, MAX_NAME_LINES) for name, room in zip(found, rooms, strict=True)]

    def add(self, shape: str, *values: object) -> None:
        """Add a shape, with its values escaped."""
        self.parts.append(Markup(shape).format(*values))

    def x(self, value: float) -> float:
        """Return the pixels from the left of a value."""
        value, low, high = (math.log2(v) if self.axes.x_log2 else v for v in (value, self.x_low, self.x_high))
        pad = NAME_PADDING if self.axes.x_names else 0
        span = self.axes.width - LEFT - RIGHT - 2 * pad
        return LEFT + pad + (span * (value - low) / (high - low) if high > low else span / 2)

    def y(self, value: float) -> float:
        """Return the pixels from the top of a value."""
        span = self.axes.height - TOP - BOTTOM
        return TOP + span * (1 - (value - self.y_low) / (self.y_high - self.y_low))

    def inside(self, value: float) -> float:
        """Return `y` of a value, at the edge of the plotted area where it lies beyond."""
        return self.y(min(max(value, self.y_low), self.y_high))


def padded(low: float, high: float) -> tuple[float, float]:
    """Return the range of an axis for values from `low` to `high`: with some air, from 0 if that is near."""
    if high <= low:
        return low - 0.5 * abs(low or 1), high + 0.5 * abs(high or 1)
    return (0.0 if 0 <= low < 0.4 * high else low - 0.05 * (high - low)), high + 0.05 * (high - low)


def ticks(low: float, high: float, count: int) -> list[float]:
    """Return about `count` round numbers from `low` to `high` (steps of 1, 2 or 5 times a power of ten)."""
    if high <= low:
        return [low]
    raw = (high - low) / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    found = [round(index * step, 12) for index in range(first, math.floor(high / step + 1e-9) + 1)]
    return found or [low]
