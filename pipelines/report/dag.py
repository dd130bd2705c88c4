"""The run's graph as a picture: stages in columns by depth, edges to the stages they wait for."""

from __future__ import annotations

from markupsafe import Markup

from pipelines.report.collect import Stage

BOX_WIDTH, BOX_HEIGHT = 96, 40
GAP_X, GAP_Y, MARGIN = 18, 12, 4
MAX_NAME = 13


def draw_dag(stages: list[Stage]) -> Markup:
    """Return the graph as inline SVG; each box shows its time and whether its result was cached."""
    places = _places(stages)
    columns = max((column for column, _ in places.values()), default=0) + 1
    rows = max((row for _, row in places.values()), default=0) + 1
    width = 2 * MARGIN + columns * BOX_WIDTH + (columns - 1) * GAP_X
    height = 2 * MARGIN + rows * BOX_HEIGHT + (rows - 1) * GAP_Y
    parts = [_edge(places[name], places[stage.name]) for stage in stages for name in stage.after]
    parts += [_box(stage, places[stage.name]) for stage in stages]
    whole = Markup('<svg class="dag" viewBox="0 0 {} {}" style="max-width:{}px">{}</svg>')
    return whole.format(width, height, width, Markup("").join(parts))


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


def _edge(source: tuple[int, int], target: tuple[int, int]) -> Markup:
    x1, y1 = _corner(source)
    x2, y2 = _corner(target)
    x1, y1, y2 = x1 + BOX_WIDTH, y1 + BOX_HEIGHT // 2, y2 + BOX_HEIGHT // 2
    bend = (x2 - x1) / 2
    curve = Markup('<path class="edge" d="M{} {}C{:.0f} {} {:.0f} {} {} {}"/>')
    return curve.format(x1, y1, x1 + bend, y1, x2 - bend, y2, x2, y2)


BOX = Markup(
    '<g class="stage {state}"><title>{stage}: {component}, {status}</title>'
    '<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="7"/>'
    '<text class="name" x="{left}" y="{upper}">{name}</text>'
    '<text class="kind" x="{left}" y="{lower}">{kind}</text>'
    '<text class="kind" x="{right}" y="{lower}" text-anchor="end">{timing}</text></g>'
)


def _box(stage: Stage, place: tuple[int, int]) -> Markup:
    x, y = _corner(place)
    cell = ", ".join(f"{axis} {value}" for axis, value in stage.labels.items())
    return BOX.format(
        state=stage.status.replace(" ", "-"),
        status=stage.status,
        stage=stage.name,
        component=stage.component,
        name=_fitted(stage.group if cell else stage.name),
        kind=_fitted(cell or stage.component),
        timing=f"{stage.seconds:.1f} s" if stage.status == "done" else stage.status,
        x=x,
        y=y,
        width=BOX_WIDTH,
        height=BOX_HEIGHT,
        left=x + 8,
        right=x + BOX_WIDTH - 8,
        upper=y + 16,
        lower=y + 32,
    )


def _fitted(text: str) -> str:
    return text if len(text) <= MAX_NAME else text[: MAX_NAME - 1] + "…"
