"""The run's graph as a picture: stages in columns by depth, edges to the stages they wait for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from markupsafe import Markup

from pipelines.report.collect import Stage
from pipelines.report.labels import CHARACTER, shortened, text_width

LEAST_SCALE = 0.85
"""Smallest scale at which the text can be read; a page that is too narrow for it scrolls."""
GAP_X, GAP_Y, MARGIN, PADDING = 18, 12, 4, 8


@dataclass(frozen=True)
class _Boxes:
    """Size of the boxes: those of cells of a matrix or rounds of a repeat have a line for their labels."""

    width: int = 96
    height: int = 40

    MAX_WIDTH: ClassVar = 200
    LINE: ClassVar = 14

    @classmethod
    def of(cls, stages: list[Stage]) -> _Boxes:
        """Return boxes that have room for the stages' labels."""
        labels = [_cell(stage) for stage in stages if stage.labels]
        if not labels:
            return cls()
        widest = max(text_width(text) for text in (*labels, *(stage.group for stage in stages))) + 2 * PADDING
        return cls(round(min(max(cls.width, widest), cls.MAX_WIDTH)), cls.height + cls.LINE)

    def corner(self, place: tuple[int, int]) -> tuple[int, int]:
        """Return the upper left corner of the box at (column, row)."""
        return MARGIN + place[0] * (self.width + GAP_X), MARGIN + place[1] * (self.height + GAP_Y)

    @property
    def small_characters(self) -> int:
        """Return how many characters of the small type fit into a line."""
        return int((self.width - 2 * PADDING) / 5.7)

    def fitted(self, text: str) -> str:
        """Return a text that fits into a box."""
        return shortened(text, self.width - 2 * PADDING + 1)


def draw_dag(stages: list[Stage]) -> Markup:
    """Return the graph as inline SVG; each box shows its time and whether its result was cached."""
    places, boxes = _places(stages), _Boxes.of(stages)
    columns = max((column for column, _ in places.values()), default=0) + 1
    rows = max((row for _, row in places.values()), default=0) + 1
    width = 2 * MARGIN + columns * boxes.width + (columns - 1) * GAP_X
    height = 2 * MARGIN + rows * boxes.height + (rows - 1) * GAP_Y
    parts = [_edge(boxes, places[name], places[stage.name]) for stage in stages for name in stage.after]
    parts += [_box(boxes, stage, places[stage.name]) for stage in stages]
    whole = Markup('<svg class="dag" viewBox="0 0 {} {}" style="max-width:{}px;min-width:{:.0f}px">{}</svg>')
    return whole.format(width, height, width, LEAST_SCALE * width, Markup("").join(parts))


def _places(stages: list[Stage]) -> dict[str, tuple[int, int]]:
    """Place each stage at (longest path to it, a free row near the rows of what it waits for)."""
    column: dict[str, int] = {}
    for stage in stages:  # the plan's order is topological
        column[stage.name] = max((column[name] + 1 for name in stage.after), default=0)
    places: dict[str, tuple[int, int]] = {}
    taken: set[tuple[int, int]] = set()
    for stage in stages:
        near = [places[name][1] for name in stage.after]
        row = round(sum(near) / len(near)) if near else 0
        while (column[stage.name], row) in taken:
            row += 1
        places[stage.name] = (column[stage.name], row)
        taken.add(places[stage.name])
    return places


def _edge(boxes: _Boxes, source: tuple[int, int], target: tuple[int, int]) -> Markup:
    x1, y1 = boxes.corner(source)
    x2, y2 = boxes.corner(target)
    x1, y1, y2 = x1 + boxes.width, y1 + boxes.height // 2, y2 + boxes.height // 2
    bend = (x2 - x1) / 2
    curve = Markup('<path class="edge" d="M{} {}C{:.0f} {} {:.0f} {} {} {}"/>')
    return curve.format(x1, y1, x1 + bend, y1, x2 - bend, y2, x2, y2)


BOX = Markup(
    '<g class="stage {state}"><title>{stage}: {component}, {status}</title>'
    '<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="7"/>'
    '<text class="name" x="{left}" y="{upper}">{name}</text>{cell}'
    '<text class="kind" x="{left}" y="{lower}">{kind}</text>'
    '<text class="kind" x="{right}" y="{lower}" text-anchor="end">{timing}</text></g>'
)
CELL = Markup('<text class="kind" x="{}" y="{}">{}</text>')


def _box(boxes: _Boxes, stage: Stage, place: tuple[int, int]) -> Markup:
    x, y = boxes.corner(place)
    left, upper = x + PADDING, y + 16
    timing = f"{stage.seconds:.1f} s" if stage.status == "done" else stage.status
    cell = CELL.format(left, upper + _Boxes.LINE, boxes.fitted(_cell(stage))) if stage.labels else ""
    return BOX.format(
        state=stage.status.replace(" ", "-"),
        status=stage.status,
        stage=stage.name,
        component=stage.component,
        name=boxes.fitted(stage.group if stage.labels else stage.name),
        cell=cell,
        kind=shortened(stage.component, CHARACTER * (boxes.small_characters - len(timing))),
        timing=timing,
        x=x,
        y=y,
        width=boxes.width,
        height=boxes.height,
        left=left,
        right=x + boxes.width - PADDING,
        upper=upper,
        lower=y + boxes.height - 8,
    )


def _cell(stage: Stage) -> str:
    """Return what distinguishes a cell: "seed 0, method dapo"."""
    return ", ".join(f"{axis} {value}" for axis, value in stage.labels.items())
