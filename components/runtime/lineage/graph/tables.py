"""A comparison of runs as terminal tables; imported only for output to people."""

from __future__ import annotations

from typing import Any

from rich.console import Group
from rich.markup import escape
from rich.table import Table

from components.contract.operator_files.names import without_digests
from components.runtime.lineage.graph.compare import Comparison


def comparison_tables(comparison: Comparison) -> Group:
    """Return one table per kind of difference, without empty ones."""
    plain = {"Stages": comparison.stages, "Parameters": comparison.params, "Code": comparison.code}
    tables = [_table(title, rows, comparison, _text) for title, rows in plain.items() if rows]
    if measured := [row for row in comparison.metrics if row["a"] != row["b"]]:
        tables.append(_table("Metrics", measured, comparison, _number, difference=True))
    return Group(*tables) if tables else Group("The runs do not differ.")


def _table(
    title: str, rows: list[dict[str, Any]], comparison: Comparison, show: Any, *, difference: bool = False
) -> Table:
    table = Table(title=title, title_justify="left")
    align = "right" if difference else "left"
    table.add_column("stage")
    table.add_column("name")
    table.add_column(escape(comparison.run_a), justify=align)
    table.add_column(escape(comparison.run_b), justify=align)
    if difference:
        table.add_column("difference", justify=align)
    for row in rows:
        cells = [escape(row["stage"] or "(run)"), escape(row["name"]), show(row["a"]), show(row["b"])]
        if difference:
            cells.append("" if row["difference"] is None else f"{row['difference']:+.4g}")
        table.add_row(*cells)
    return table


def _text(value: Any) -> str:
    return "" if value is None else escape(without_digests(str(value)))


def _number(measured: dict[str, Any] | None) -> str:
    """Return "0.61 (0.55 to 0.67)", or the bare value if no interval was measured."""
    if measured is None:
        return ""
    text = f"{measured['value']:.4g}"
    return escape(f"{text} ({measured['low']:.4g} to {measured['high']:.4g})") if "low" in measured else text
