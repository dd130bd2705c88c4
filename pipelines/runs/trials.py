"""The trials of a sweep, at the end of a run: the tables that its last stage puts into the report."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from components.contract.display import Table as TableSection
from components.contract.terminal import visible_line
from pipelines.report.collect import RunData, declared
from pipelines.report.content import Cell, Paragraph, Rows, Strong, Value
from pipelines.report.tables import table

if TYPE_CHECKING:
    from rich.table import Table

SWEEP = "sweep"
"""The component that draws, judges and compares trials; the last stage of it knows how they all ended."""


def trial_tables(data: RunData) -> Iterator[Table | str]:
    """Yield the tables of the sweep and what is said about each; nothing of a run without one."""
    stages = [stage for stage in data.stages if stage.component == SWEEP and stage.files]
    declaration = declared(SWEEP) if stages else None
    for section in declaration.report if declaration else ():
        if isinstance(section, TableSection):
            for part in table(section, stages[-1]):
                if isinstance(part, Rows) and part.rows:
                    yield _drawn(section.title, part)
                elif isinstance(part, Paragraph):
                    yield visible_line(part.text)


def _drawn(title: str, rows: Rows) -> Table:
    from rich.table import Table
    from rich.text import Text

    drawn = Table(title=title, title_justify="left")
    for place, name in enumerate(rows.head):
        drawn.add_column(Text(visible_line(name)), justify="right" if place >= rows.numbers_from else "left")
    for row in rows.rows:
        style = "bold" if any(isinstance(cell, Strong) for cell in row) else ""
        drawn.add_row(*(Text(_text(cell)) for cell in row), style=style)
    return drawn


def _text(cell: Cell) -> str:
    if isinstance(cell, Value):
        return f"{cell.text} {cell.interval}".rstrip()
    return visible_line(cell.text if isinstance(cell, Strong) else str(cell))
