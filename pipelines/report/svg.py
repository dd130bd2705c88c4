"""Charts as inline SVG: no scripts, no external resources; colours come from the page's style sheet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from pipelines.report.frame import BOTTOM, LEFT, RIGHT, TOP, Axes, Frame, padded, ticks
from pipelines.report.labels import LINE_HEIGHT

NUM_COLOURS = 6
STROKES = ("", " dashed", " dotted")
"""Strokes of the first six lines, of the next six and of those after them, so that no two of 18 lines look alike."""


@dataclass(frozen=True)
class Series:
    """One line: points (x, y), an optional band (low, high) per point, and whether points are marked."""

    name: str
    points: Sequence[tuple[float, float]]
    band: Sequence[tuple[float, float]] | None = None
    colour: int = 0
    marks: bool = False
    scatter: Sequence[tuple[float, float]] = ()
    """Single observations behind the line, such as one point per seed."""
    thin: bool = False
    """Whether it is one of the lines behind a mean."""


def tone(colour: int) -> str:
    """Return the classes of a line's colour and stroke."""
    return f"c{colour % NUM_COLOURS}{STROKES[colour // NUM_COLOURS % len(STROKES)]}"


def line_chart(series: Sequence[Series], axes: Axes) -> Markup:
    """Return a line chart; series without points are left out, and no series gives an empty text."""
    shown = [item for item in series if item.points]
    if not shown:
        return Markup("")
    frame = _frame(shown, axes)
    _grid(frame)
    for item in shown:
        _draw(frame, item)
    return _svg(frame, [item.name for item in shown])


def histogram(groups: Sequence[tuple[str, Sequence[float], int]], edges: Sequence[str], axes: Axes) -> Markup:
    """Return grouped bars: each group is (name, counts per bin, colour); `edges` names the bins."""
    if not groups or not edges:
        return Markup("")
    top = max((max(counts, default=0) for _, counts, _ in groups), default=0) or 1
    frame = Frame(axes, 0, len(edges), 0, top * 1.05)
    _y_grid(frame)
    slot = (axes.width - LEFT - RIGHT) / len(edges)
    bar = slot * 0.8 / len(groups)
    for order, (name, counts, colour) in enumerate(groups):
        for edge, (index, count) in zip(edges, enumerate(counts), strict=True):
            left, height = LEFT + slot * (index + 0.1) + bar * order, frame.y(0) - frame.y(count)
            frame.add(
                '<rect class="bar c{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}">'
                "<title>{}: {}: {:g}</title></rect>",
                *(colour % NUM_COLOURS, left, frame.y(count), bar, height),
                *(name, edge, count),
            )
    every = max(1, math.ceil(len(edges) / 6))
    for index in range(0, len(edges), every):
        _text(frame, LEFT + slot * (index + 0.5), axes.height - BOTTOM + 14, edges[index])
    _axis_labels(frame)
    return _svg(frame, [name for name, _, _ in groups])


def _frame(series: Sequence[Series], axes: Axes) -> Frame:
    xs = [x for item in series for x, _ in item.points]
    ys = [y for item in series for _, y in item.points]
    ys += [y for item in series for pair in item.band or () for y in pair]
    low, high = axes.y_range or padded(min(ys), max(ys))
    x_low, x_high = (0, len(axes.x_names) - 1) if axes.x_names else (min(xs), max(xs))
    return Frame(axes, x_low, x_high, low, high)


def _grid(frame: Frame) -> None:
    _y_grid(frame)
    axes = frame.axes
    baseline = axes.height - BOTTOM + 14
    if axes.x_names:
        for index, (name, lines) in enumerate(zip(axes.x_names, frame.names, strict=True)):
            _name(frame, frame.x(index), baseline, name, lines)
    else:
        for value in _powers(frame) if axes.x_log2 else ticks(frame.x_low, frame.x_high, 5):
            _text(frame, frame.x(value), baseline, f"{value:g}")
    for x in axes.x_marks:
        frame.add('<path class="grid dotted" d="M{:.1f} {}V{}"/>', frame.x(x), TOP, frame.floor)
    _axis_labels(frame)


def _y_grid(frame: Frame) -> None:
    axes = frame.axes
    for value in ticks(frame.y_low, frame.y_high, 4):
        y = frame.y(value)
        frame.add('<path class="grid" d="M{} {:.1f}H{}"/>', LEFT, y, axes.width - RIGHT)
        text = 100 * value if axes.percent else value
        frame.add('<text class="tick" x="{}" y="{:.1f}" text-anchor="end">{:g}</text>', LEFT - 6, y + 4, text)


def _axis_labels(frame: Frame) -> None:
    axes = frame.axes
    middle = (LEFT + axes.width - RIGHT) / 2
    if axes.x_label:
        frame.add('<text class="label" x="{}" y="{}">{}</text>', middle, frame.height - 4, axes.x_label)
    if axes.y_label:
        centre = (TOP + axes.height - BOTTOM) / 2
        turned = '<text class="label" x="11" y="{}" transform="rotate(-90 11 {})">{}</text>'
        frame.add(turned, centre, centre, axes.y_label)


def _draw(frame: Frame, item: Series) -> None:
    points = [(frame.x(x), frame.y(y)) for x, y in item.points]
    colour = item.colour % NUM_COLOURS
    if item.band and item.marks:
        for (x, _), (low, high) in zip(points, item.band, strict=True):
            line = '<path class="whisker c{}" d="M{:.1f} {:.1f}V{:.1f}"/>'
            frame.add(line, colour, x, frame.y(low), frame.y(high))
    elif item.band:
        edge = [(x, frame.inside(high)) for (x, _), (_, high) in zip(points, item.band, strict=True)]
        back = [(x, frame.inside(low)) for (x, _), (low, _) in zip(points, item.band, strict=True)]
        frame.add('<path class="band c{}" d="{}Z"/>', colour, _path([*edge, *reversed(back)]))
    for x, y in item.scatter:
        speck = '<circle class="speck c{}" cx="{:.1f}" cy="{:.1f}" r="3"><title>{}: {:.4g}</title></circle>'
        frame.add(speck, colour, frame.x(x), frame.y(y), item.name, y)
    stroke = f"{tone(item.colour)}{' thin' if item.thin else ''}"
    frame.add('<path class="line {}" d="{}"><title>{}</title></path>', stroke, _path(points), item.name)
    if item.marks or len(points) == 1:
        for (x, y), (at, value) in zip(points, item.points, strict=True):
            shown = frame.axes.x_names[int(at)] if frame.axes.x_names else f"{at:g}"
            mark = '<circle class="mark c{}" cx="{:.1f}" cy="{:.1f}" r="3.5"><title>{} at {}: {:.4g}</title></circle>'
            frame.add(mark, colour, x, y, item.name, shown, value)


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def _name(frame: Frame, x: float, y: float, name: str, lines: Sequence[str]) -> None:
    if len(lines) == 1 and lines[0] == name:
        _text(frame, x, y, name)
        return
    spans = Markup("").join(
        Markup('<tspan x="{:.1f}" dy="{}">{}</tspan>').format(x, LINE_HEIGHT if index else 0, line)
        for index, line in enumerate(lines)
    )
    whole = '<text class="tick" x="{:.1f}" y="{:.1f}" text-anchor="middle"><title>{}</title>{}</text>'
    frame.add(whole, x, y, name, spans)


def _text(frame: Frame, x: float, y: float, text: str) -> None:
    frame.add('<text class="tick" x="{:.1f}" y="{:.1f}" text-anchor="middle">{}</text>', x, y, text)


def _powers(frame: Frame) -> list[float]:
    first, last = math.ceil(math.log2(frame.x_low)), math.floor(math.log2(frame.x_high))
    return [2.0**power for power in range(first, last + 1)]


def _svg(frame: Frame, names: Sequence[str]) -> Markup:
    whole = Markup('<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>')
    return whole.format(frame.axes.width, frame.height, ", ".join(names), Markup("").join(frame.parts))
