"""Estimates as cells and titles: what the results of a recipe and of a matrix have in common."""

from __future__ import annotations

from components.contract.display import Column, Results
from pipelines.report.content import NOTHING, Cell, number, share
from pipelines.report.evaluations import Estimate, Evaluation, ResultTable


def metric_title(table: ResultTable, title: str, unit: str = "%") -> str:
    """Return the name of a compared metric with what distinguishes it: "pass@1 sums, %"."""
    name = table.results.name
    words = name if title == name else f"{name} {title}"
    return f"{words}, {unit}" if table.results.share else words


def compared(results: Results, estimate: Estimate | None) -> Cell:
    """Return a value of the compared metric with its interval."""
    written = share if results.share else number
    return written(estimate, digits=results.digits)


def further(table: ResultTable) -> list[Column]:
    """Return the further columns that any of the evaluations has measured."""
    return [c for c in table.results.columns if any(item.estimate(c.value) for item in table.evaluations)]


def beside(item: Evaluation, columns: list[Column]) -> list[Cell]:
    """Return an evaluation's further metrics."""
    found = [(column, item.estimate(column.value)) for column in columns]
    return [f"{estimate.value:.{column.digits}f}" if estimate else NOTHING for column, estimate in found]


def bounds(estimate: Estimate, results: Results) -> tuple[float, float]:
    """Return the ends of an interval, the value itself without one; a share's within 0 and 1."""
    cut = estimate.cut(0, 1) if results.share else estimate
    return (cut.value if cut.low is None else cut.low, cut.value if cut.high is None else cut.high)
