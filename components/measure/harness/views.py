"""Views: what a diagnostic shows, as plain data that the report draws, `views.json`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from components.measure.intervals import Interval
from components.measure.metrics import write_json

VIEWS_FILE = "views.json"
Cell = str | float | Interval | None
"""Text, a number, a number with its interval, or nothing."""


@dataclass(frozen=True)
class ViewTable:
    """A table; its first column names the row."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    percent: bool = False
    """Whether its numbers are shares, shown in per cent."""


@dataclass(frozen=True)
class Line:
    """One line of a chart."""

    name: str
    points: Sequence[tuple[float, float]]
    band: Sequence[tuple[float, float]] = ()
    """(low, high) of each point."""
    marks: bool = False
    """Whether points are marked, with whiskers in the place of a band."""


@dataclass(frozen=True)
class Chart:
    """Lines over one pair of axes."""

    title: str
    lines: Sequence[Line]
    x_label: str
    y_label: str
    x_log2: bool = False
    percent: bool = True
    """Whether the values are shares from 0 to 1, shown in per cent."""
    diagonal: str = ""
    """Name of the line from (0, 0) to (1, 1), if there is one."""


@dataclass(frozen=True)
class View:
    """Numbers with names, and how they are shown."""

    text: str
    """A sentence or two on how to read it."""
    metrics: Mapping[str, Interval | float] = field(default_factory=dict)
    """Entries of metrics.json, domains in their names."""
    tables: Sequence[ViewTable] = ()
    charts: Sequence[Chart] = ()
    domains: Sequence[str] = ()
    """Domains in the names of metrics, if they are not those of the measured prompts."""

    def to_json(self) -> dict[str, Any]:
        """Return what the report draws."""
        return {
            "text": self.text,
            "tables": [
                {
                    "title": table.title,
                    "head": list(table.head),
                    "rows": [[_cell(cell) for cell in row] for row in table.rows],
                    "percent": table.percent,
                }
                for table in self.tables
            ],
            "charts": [
                {
                    "title": chart.title,
                    "x_label": chart.x_label,
                    "y_label": chart.y_label,
                    "x_log2": chart.x_log2,
                    "percent": chart.percent,
                    "diagonal": chart.diagonal,
                    "lines": [
                        {
                            "name": line.name,
                            "points": [list(point) for point in line.points],
                            "band": [list(ends) for ends in line.band],
                            "marks": line.marks,
                        }
                        for line in chart.lines
                    ],
                }
                for chart in self.charts
            ],
        }


def write_views(folder: Path, views: Mapping[str, View]) -> None:
    """Write views.json: title -> view."""
    write_json(folder / VIEWS_FILE, {title: view.to_json() for title, view in views.items()})


def _cell(cell: Cell) -> Any:
    return cell.to_json() if isinstance(cell, Interval) else cell
