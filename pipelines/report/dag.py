"""The run's graph as a picture: stages in columns by depth, edges by what a stage waits for."""

from __future__ import annotations

from html import escape

from pipelines.report.collect import Stage

BOX_WIDTH, BOX_HEIGHT = 96, 40
GAP_X, GAP_Y, MARGIN = 18, 12, 4
MAX_NAME = 13


def draw_dag(stages: list[Stage]) -> str:
    """Return the graph as inline SVG, each box with its time and whether its result was cached."""
    places = _places(stages)
    columns = max((column for column, _ in places.values()), default=0) + 1
    rows = max((row for _, row in places.values()), default=0) + 1
    width = 2 * MARGIN + columns * BOX_WIDTH + (columns - 1) * GAP_X
    height = 2 * MARGIN + rows * BOX_HEIGHT + (rows - 1) * GAP_Y
    parts = [_edge(places[name], places[stage.name]) for stage in stages for name in stage.after]
    parts += [_box(stage, places[stage.name]) for stage in stages]
    return f'<svg class="dag" viewBox="0 0 {width} {height}" style="max-width:{width}px">{"".join(parts)}</svg>'


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


def _corner(place: tuple[int, int]) -> tuple[int, int]:
    return MARGIN + place[0] * (BOX_WIDTH + GAP_X), MARGIN + place[1] * (BOX_HEIGHT + GAP_Y)


def _edge(source: tuple[int, int], target: tuple[int, int]) -> str:
    x1, y1 = _corner(source)
    x2, y2 = _corner(target)
    x1, y1, y2 = x1 + BOX_WIDTH, y1 + BOX_HEIGHT // 2, y2 + BOX_HEIGHT // 2
    bend = (x2 - x1) / 2
    return f'<path class="edge" d="M{x1} {y1}C{x1 + bend:.0f} {y1} {x2 - bend:.0f} {y2} {x2} {y2}"/>'


def _box(stage: Stage, place: tuple[int, int]) -> str:
    x, y = _corner(place)
    timing = f"{stage.seconds:.1f} s" if stage.status == "done" else stage.status
    cell = ", ".join(f"{axis} {value}" for axis, value in stage.labels.items())
    name = _fitted(stage.group if cell else stage.name)
    return (
        f'<g class="stage {stage.status.replace(" ", "-")}"><title>{escape(stage.name)}: {escape(stage.component)}, '
        f'{escape(stage.status)}</title><rect x="{x}" y="{y}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="7"/>'
        f'<text class="name" x="{x + 8}" y="{y + 16}">{escape(name)}</text>'
        f'<text class="kind" x="{x + 8}" y="{y + 32}">{escape(_fitted(cell or stage.component))}</text>'
        f'<text class="kind" x="{x + BOX_WIDTH - 8}" y="{y + 32}" text-anchor="end">{timing}</text></g>'
    )


def _fitted(text: str) -> str:
    return text if len(text) <= MAX_NAME else text[: MAX_NAME - 1] + "…"
