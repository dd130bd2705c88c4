"""Result sections: measurements of each model, and what was lost and recovered along the recipe."""

from __future__ import annotations

from components.contract.display import Column, Results, place_name
from pipelines.report.content import NOTHING, Cell, Figure, Part, Rows, legend, number, share
from pipelines.report.evaluations import Estimate, Evaluation, ResultTable
from pipelines.report.svg import Axes, Series, line_chart

RECOVERY = "The deepest loss of each skill along the recipe, and the share of it that the last model has back (means)."
LOST = 0.01
"""Loss (a share) below which no loss is reported."""


def measured(table: ResultTable) -> list[Part]:
    """Return the compared metric over the evaluated models: each stage's gains and losses."""
    results = table.results
    axes = Axes(
        y_label=f"{results.name}, %" if results.share else results.name,
        y_range=(0, 1.02) if results.share else None,
        percent=results.share,
        x_names=[item.model for item in table.evaluations],
        width=760,
        height=290,
    )
    series = [_series(table, metric, colour) for colour, metric in enumerate(table.columns)]
    return [legend(list(table.columns.values())), Figure(line_chart(series, axes)), _rows(table)]


def _series(table: ResultTable, metric: str, colour: int) -> Series:
    found = [(index, item.estimate(metric)) for index, item in enumerate(table.evaluations)]
    known = [(index, estimate) for index, estimate in found if estimate]
    return Series(
        table.columns[metric],
        [(index, estimate.value) for index, estimate in known],
        [_bounds(estimate, is_share=table.results.share) for _, estimate in known],
        colour,
        marks=True,
        scatter=_seeds(table.evaluations, metric),
    )


def lead(table: ResultTable) -> str:
    """Return the sentences above the results."""
    about = table.results.about or table.results.name
    many = any(len(item.stages) > 1 for item in table.evaluations)
    over = f", with 95 % intervals over {' and '.join(table.over())}" if table.over() else ""
    return f"{about[:1].upper()}{about[1:]} of each model{over}. Lines join the models in the order of the recipe" + (
        "; small dots are single seeds." if many else "."
    )


def _seeds(evaluations: list[Evaluation], metric: str) -> list[tuple[float, float]]:
    """Return one point per seed, beside the mean; none if there is only one seed."""
    return [
        (index, value)
        for index, item in enumerate(evaluations)
        for value in (item.values(metric) if len(item.stages) > 1 else [])
    ]


def _bounds(estimate: Estimate, *, is_share: bool) -> tuple[float, float]:
    low = estimate.value if estimate.low is None else estimate.low
    high = estimate.value if estimate.high is None else estimate.high
    return (max(0.0, low), min(1.0, high)) if is_share else (low, high)


def _rows(table: ResultTable) -> Rows:
    results = table.results
    beside = [c for c in results.columns if any(item.estimate(c.value) for item in table.evaluations)]
    head = ["model", *(_title(table, title) for title in table.columns.values()), *(c.title for c in beside)]
    rows = [
        [item.model, *(_compared(results, item.estimate(metric)) for metric in table.columns), *_beside(item, beside)]
        for item in table.evaluations
    ]
    return Rows(head, rows)


def _title(table: ResultTable, title: str) -> str:
    name = table.results.name
    words = name if title == name else f"{name} {title}"
    return f"{words}, %" if table.results.share else words


def _compared(results: Results, estimate: Estimate | None) -> Cell:
    written = share if results.share else number
    return written(estimate, digits=results.digits)


def _beside(item: Evaluation, columns: list[Column]) -> list[Cell]:
    found = [(column, item.estimate(column.value)) for column in columns]
    return [f"{estimate.value:.{column.digits}f}" if estimate else NOTHING for column, estimate in found]


def recovery(table: ResultTable) -> list[Part]:
    """Return, by column, the largest loss along the recipe and how much of it the last model recovered."""
    rows = []
    for metric, title in table.columns.items():
        track = [(item.model, item.estimate(metric)) for item in table.evaluations]
        known = [(model, estimate.value) for model, estimate in track if estimate]
        if len(known) >= 3:
            rows.append([title, *_lost(known)])
    head = [
        place_name(table.results.metric) or "metric",
        "best before",
        "lowest at",
        "change there, points",
        "change to the end, points",
        "given back",
    ]
    return [Rows(head, rows, numbers_from=3)] if rows else []


def _lost(known: list[tuple[str, float]]) -> list[str]:
    low_at = min(range(1, len(known)), key=lambda index: known[index][1])
    best_before = max(known[:low_at], key=lambda item: item[1])
    lost = best_before[1] - known[low_at][1]
    if lost < LOST:
        return ["nothing lost", "", "", _points(known[-1][1] - known[0][1]), ""]
    back = known[-1][1] - known[low_at][1]
    return [best_before[0], known[low_at][0], _points(-lost), _points(back), f"{100 * back / lost:.0f} %"]


def _points(difference: float) -> str:
    return f"{100 * difference:+.1f}"
