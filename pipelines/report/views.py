"""Views of diagnostics: a text, tables and charts, as components/measure/harness/views.py writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from components.contract.display import Views
from pipelines.report.collect import Stage
from pipelines.report.content import (
    NOTHING,
    Cell,
    Figure,
    Figures,
    Heading,
    Legend,
    Paragraph,
    Part,
    Rows,
    number,
    share,
)
from pipelines.report.evaluations import Estimate
from pipelines.report.frame import Axes
from pipelines.report.svg import Series, line_chart

DIAGONAL = 5
"""Colour of the line that others are compared with."""


def views(section: Views, stage: Stage) -> list[Part]:
    """Return every view of a stage's file: its heading, text, tables and charts."""
    parts: list[Part] = []
    for title, view in (stage.json(section.port, section.file) or {}).items():
        parts += [Heading(f"{title}: {stage.name}"), Paragraph(str(view["text"]), "lead")]
        for table in view["tables"]:
            rows = [[_cell(cell, percent=bool(table["percent"])) for cell in row] for row in table["rows"]]
            parts.append(Rows(list(map(str, table["head"])), rows))
        parts += _charts(view["charts"])
    return parts


def _charts(charts: Sequence[Mapping[str, Any]]) -> list[Part]:
    names = {name: place for place, name in enumerate(dict.fromkeys(_names(charts)))}
    figures = []
    for chart in charts:
        series = [_series(line, names[str(line["name"])]) for line in chart["lines"]]
        if chart["diagonal"]:
            series.insert(0, Series(str(chart["diagonal"]), [(0.0, 0.0), (1.0, 1.0)], colour=DIAGONAL, thin=True))
        axes = Axes(
            x_label=str(chart["x_label"]),
            y_label=str(chart["y_label"]),
            x_log2=bool(chart["x_log2"]),
            y_range=(0, 1.02) if chart["percent"] else None,
            percent=bool(chart["percent"]),
        )
        if drawn := line_chart(series, axes):
            figures.append(Figure(drawn, str(chart["title"])))
    return [Legend(list(names.items())), Figures(figures)] if figures else []


def _names(charts: Sequence[Mapping[str, Any]]) -> list[str]:
    return [str(line["name"]) for chart in charts for line in chart["lines"]]


def _series(line: Mapping[str, Any], colour: int) -> Series:
    points = [(float(x), float(y)) for x, y in line["points"]]
    band = [(float(low), float(high)) for low, high in line["band"]]
    return Series(str(line["name"]), points, band or None, colour, marks=bool(line["marks"]))


def _cell(cell: Any, *, percent: bool) -> Cell:
    if cell is None:
        return NOTHING
    if isinstance(cell, str):
        return cell
    estimate = Estimate.read(cell) if isinstance(cell, Mapping) else Estimate(float(cell))
    if percent:
        return share(estimate)
    whole = estimate.low is None and estimate.value == int(estimate.value)
    return number(estimate, digits=0 if whole else 3)
