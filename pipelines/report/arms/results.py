"""Results of a matrix: bars of the arms, their way through the recipe, how they differ, and all numbers in a table."""

from __future__ import annotations

from collections.abc import Sequence

from pipelines.report.arms import charts
from pipelines.report.arms.effects import effect_parts
from pipelines.report.arms.matrix import SHARED, ArmResults, step_of
from pipelines.report.cells import beside, bounds, compared, further, metric_title
from pipelines.report.content import NOTHING, Cell, Figure, Figures, Heading, Legend, Measure, Measures, Part, Rows
from pipelines.report.evaluations import Evaluation
from pipelines.report.frame import Axes
from pipelines.report.svg import Series, line_chart

ALL_ARMS = "all arms"
SIDES = (["run"], ["arm"], ["cell"])
"""Axes that need no explanation."""
MAX_WAYS = 18
"""Most arms that are drawn as lines; of more no two lines could be told apart."""


def measured_arms(found: ArmResults) -> list[Part]:
    """Return the results of the arms."""
    return [_bars(found), *effect_parts(found), *_ways(found), Heading("All numbers"), _rows(found)]


def lead(found: ArmResults) -> str:
    """Return the sentences above the results of arms."""
    table = found.table
    about = table.results.about or table.results.name
    over = f", with 95 % intervals over {' and '.join(table.over())}" if table.over() else ""
    dots = "; small dots are single seeds" if any(len(item.stages) > 1 for item in table.evaluations) else ""
    axes = list(found.design.axes)
    arms = f"each {axes[0]}" if axes in SIDES else f"each arm of the matrix over {' and '.join(axes)}"
    return f"{about[:1].upper()}{about[1:]} of {arms}{over}{dots}."


def _bars(found: ArmResults) -> Figures:
    """Return the metrics of the last step of all arms, a bar for each arm, below what all arms started from."""
    step = found.last_step
    before = [item for place, item in found.shared if place < found.steps.index(step)][-1:]
    shown = [(step_of(item), item, SHARED) for item in before]
    shown += [(arm.title, item, found.colour(arm)) for arm, item in found.of_arms(step)]
    share = found.table.results.share
    figures = []
    for metric, title in found.table.columns.items():
        known = [item.estimate(metric) for _, item, _ in shown]
        scale = charts.Scale.of(known, percent=share, whole=share)
        rows = [_bar(name, item, metric, scale, colour) for name, item, colour in shown]
        rows += [Measure(name, status) for name, status in found.missing.items()]
        figures.append(Measures(f"{metric_title(found.table, title)}, of {step}", rows, charts.axis(scale)))
    return Figures(figures)


def _bar(name: str, item: Evaluation, metric: str, scale: charts.Scale, colour: int) -> Measure:
    estimate = item.estimate(metric)
    if estimate is None:
        return Measure(name, NOTHING)
    single = item.values(metric) if len(item.stages) > 1 else []
    return Measure(name, compared(item.results, estimate), charts.bar(estimate, scale, colour, single))


def _ways(found: ArmResults) -> list[Part]:
    """Return a chart for each metric with a line for each arm through the steps; nothing for a single step."""
    arms = [arm for arm in found.design.arms if found.own_track(arm)]
    if len(found.steps) < 2 or len(arms) > MAX_WAYS:
        return []
    results = found.table.results
    axes = Axes(y_range=(0, 1.02) if results.share else None, percent=results.share, x_names=found.steps)
    figures = []
    for metric, title in found.table.columns.items():
        series = [_line(found.shared, metric, ALL_ARMS, SHARED)]
        series += [_line(found.own_track(arm), metric, arm.title, found.colour(arm)) for arm in arms]
        figures.append(Figure(line_chart(series, axes), metric_title(found.table, title)))
    shared = [(ALL_ARMS, SHARED)] if found.shared else []
    names = [*shared, *((arm.title, found.colour(arm)) for arm in arms)]
    return [Heading("Along the recipe"), Legend(names), Figures(figures)]


def _line(track: Sequence[tuple[int, Evaluation]], metric: str, name: str, colour: int) -> Series:
    known = [(place, item, estimate) for place, item in track if (estimate := item.estimate(metric))]
    ends = [bounds(estimate, item.results) for _, item, estimate in known]
    return Series(name, [(place, estimate.value) for place, _, estimate in known], ends, colour, marks=True)


def _rows(found: ArmResults) -> Rows:
    """Return all numbers: a row for each evaluation, a column for each axis."""
    table, axes = found.table, found.design.axes
    columns, models = further(table), ["model"] if len(found.steps) > 1 else []
    titles = [*(metric_title(table, title) for title in table.columns.values()), *(column.title for column in columns)]
    rows: list[list[Cell]] = []
    for item in table.evaluations:
        cells: list[Cell] = [item.arm.get(axis, "all") for axis in axes]
        cells += [step_of(item)] if models else []
        cells += [compared(table.results, item.estimate(metric)) for metric in table.columns]
        rows.append([*cells, *beside(item, columns)])
    return Rows([*axes, *models, *titles], rows, numbers_from=len(axes) + len(models))
