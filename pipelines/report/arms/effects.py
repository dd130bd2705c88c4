"""How arms differ from the baseline: a dot with its interval for each arm, metric and step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from components.contract.display import Results
from pipelines.report.arms import charts
from pipelines.report.arms.design import Arm, Design
from pipelines.report.arms.differences import Difference, adjusted, difference
from pipelines.report.arms.matrix import ArmResults
from pipelines.report.cells import metric_title
from pipelines.report.content import NOTHING, Cell, Figures, Heading, Measure, Measures, Paragraph, Part, Value, number
from pipelines.report.evaluations import Estimate, Evaluation

NO_DIFFERENCE = (-0.05, 0.05)
"""The range that is shown where no arm differs at all."""
NOT_PAIRED = "nothing in common"


Measured = tuple[Arm, Evaluation]


@dataclass(frozen=True)
class Effect:
    """A metric of a step: what each arm has more than the baseline."""

    step: str
    metric: str
    title: str
    against: str
    """Title of the baseline, or of the side whose same cell each arm is compared with."""
    differences: list[tuple[Arm, Difference | None]]
    """None for an arm that has nothing in common with the baseline that could be paired."""


def effects(found: ArmResults) -> Iterator[Effect]:
    """Yield the differences from the baseline, by step and metric; p-values are adjusted for the number of arms.

    Where the arms are the cells of several runs, each is compared with the same cell of the first run.
    """
    for step in found.own_steps:
        arms = found.of_arms(step)
        if len(arms) < 2:
            continue
        groups = (
            _same_cells(found.design, arms) if found.design.compares_cells else [_with_baseline(found.design, arms)]
        )
        against = found.design.first_side if found.design.compares_cells else groups[0][0][0].title
        for metric, title in found.table.columns.items():
            moved: list[tuple[Arm, Difference | None]] = []
            for (_, theirs), *others in groups:
                values = adjusted([difference(item, theirs, metric) for _, item in others])
                moved += zip((arm for arm, _ in others), values, strict=True)
            yield Effect(step, metric, title, against, moved)


def _with_baseline(design: Design, arms: list[Measured]) -> list[Measured]:
    """Return the arms, the baseline first."""
    base = next((one for one in arms if design.baseline.covers(one[0].labels)), arms[0])
    return [base, *(one for one in arms if one is not base)]


def _same_cells(design: Design, arms: list[Measured]) -> list[list[Measured]]:
    """Return the arms by their cell, that of the first side first; without cells that the first side lacks."""
    cells: dict[str, list[Measured]] = {}
    for arm, item in arms:
        cell = {axis: value for axis, value in arm.labels.items() if axis != design.sides}
        cells.setdefault(str(sorted(cell.items())), []).append((arm, item))
    found = []
    for of_cell in cells.values():
        first = next((one for one in of_cell if one[0].labels.get(design.sides) == design.first_side), None)
        found += [[first, *(one for one in of_cell if one is not first)]] if first else []
    return found


def effect_parts(found: ArmResults) -> list[Part]:
    """Return the differences as charts, below what they are over; nothing if no arm has any."""
    shown = list(effects(found))
    known = [one for effect in shown for _, one in effect.differences if one]
    if not known:
        return []
    over = sorted({one.estimate.over for one in known if one.estimate.low is not None})
    bases = dict.fromkeys(effect.against for effect in shown)
    steps = dict.fromkeys(effect.step for effect in shown)
    figures = [Figures([_figure(found, effect) for effect in shown if effect.step == step]) for step in steps]
    cells = ", each cell minus the same cell" if found.design.compares_cells else ""
    return [Heading(f"Minus {' and '.join(bases)}{cells}"), Paragraph(about_pairs(over), "lead"), *figures]


def about_pairs(over: list[str]) -> str:
    """Return in words how differences were paired, by what their intervals are over."""
    if not over:
        return "Differences of single values; nothing behind them can be paired, so they have no interval."
    pairs = {"prompts": "on the same prompts", "seeds": "paired by seed"}
    tests = {"prompts": "a sign-flip permutation test", "seeds": "a t test"}
    told = " and ".join(pairs.get(unit, unit) for unit in over)
    tested = " (prompts) or ".join(tests[unit] for unit in over)
    return (
        f"Differences {told}, with 95 % intervals over {' and '.join(over)}; two-sided p of {tested}, adjusted for the "
        "number of arms (Holm)."
    )


def _figure(found: ArmResults, effect: Effect) -> Measures:
    results = found.table.results
    known = [one.estimate for _, one in effect.differences if one]
    none = (
        [Estimate(end) for end in NO_DIFFERENCE] if not any(one.value or one.low or one.high for one in known) else []
    )
    scale = charts.Scale.of([*known, *none], percent=results.share)
    rows = [
        Measure(arm.title, difference_cell(one, results), charts.point(one.estimate, scale, found.colour(arm)))
        if one
        else Measure(arm.title, NOT_PAIRED)
        for arm, one in effect.differences
    ]
    title = metric_title(found.table, effect.title, "points")
    return Measures(f"{title}, of {effect.step}", rows, charts.axis(scale))


def difference_cell(one: Difference | None, results: Results) -> Cell:
    """Return a difference with its interval and p, in points where the metric is a share."""
    if one is None:
        return NOTHING
    written = number(one.estimate, digits=results.digits, scale=100 if results.share else 1)
    assert isinstance(written, Value)
    text = written.text if written.text.startswith("-") else f"+{written.text}"
    chance = f"p {one.p:.2g}" if one.p is not None else ""
    return Value(text, ", ".join(part for part in (written.interval, chance) if part))
