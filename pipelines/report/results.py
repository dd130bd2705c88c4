"""Result sections: measurements of each model, and what was lost and recovered along the recipe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from components.contract.display import place_name
from pipelines.report.cells import beside, bounds, compared, further, metric_title
from pipelines.report.content import Figure, Part, Rows, legend
from pipelines.report.evaluations import Evaluation, ResultTable
from pipelines.report.frame import Axes
from pipelines.report.svg import Series, line_chart

RECOVERY = "The deepest loss of each skill along the recipe, and the share of it that the last model has back (means)."
NARROW, NARROW_HEIGHT = 360, 250
"""Size of the chart on a phone, where the wide one's text would be too small to read."""
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
    narrow = line_chart(series, replace(axes, width=NARROW, height=NARROW_HEIGHT))
    return [legend(list(table.columns.values())), Figure(line_chart(series, axes), narrow=narrow), _rows(table)]


def _series(table: ResultTable, metric: str, colour: int) -> Series:
    found = [(index, item.estimate(metric)) for index, item in enumerate(table.evaluations)]
    known = [(index, estimate) for index, estimate in found if estimate]
    return Series(
        table.columns[metric],
        [(index, estimate.value) for index, estimate in known],
        [bounds(estimate, table.results) for _, estimate in known],
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


def _rows(table: ResultTable) -> Rows:
    columns = further(table)
    titles = (metric_title(table, title) for title in table.columns.values())
    rows = [
        [
            item.model,
            *(compared(table.results, item.estimate(metric)) for metric in table.columns),
            *beside(item, columns),
        ]
        for item in table.evaluations
    ]
    return Rows(["model", *titles, *(column.title for column in columns)], rows)


def recovery(table: ResultTable, arms: Sequence[tuple[str, Sequence[Evaluation]]] = ()) -> list[Part]:
    """Return, by column, the largest loss along the recipe and how much of it the last model recovered.

    `arms` are those of a matrix by title, each with its evaluations in the order of the recipe.
    """
    rows = []
    for name, evaluations in arms or [("", table.evaluations)]:
        for metric, title in table.columns.items():
            track = [(item.model if not arms else item.step, item.estimate(metric)) for item in evaluations]
            known = [(model, estimate.value) for model, estimate in track if estimate]
            if len(known) >= 3:
                rows.append([*([name] if arms else []), title, *_lost(known)])
    head = [
        *(["arm"] if arms else []),
        place_name(table.results.metric) or "metric",
        "best before",
        "lowest at",
        "change there, points",
        "change to the end, points",
        "given back",
    ]
    return [Rows(head, rows, numbers_from=len(head) - 3)] if rows else []


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
