"""What the sides of a comparison measured, and how they differ from the first one on the same prompts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from components.contract.display import Results
from components.runtime.ledger.ledger import Ledger
from components.runtime.lineage.graph.compare import settings
from components.runtime.store import Store
from pipelines.plan.costs import RunCost
from pipelines.report.arms.design import title
from pipelines.report.arms.differences import Difference, adjusted, difference
from pipelines.report.arms.matrix import step_of
from pipelines.report.cells import metric_title
from pipelines.report.collect import Stage
from pipelines.report.evaluations import Estimate, Evaluation, ResultTable, result_tables
from pipelines.report.forks import ForkPair, fork_pairs
from pipelines.report.settings import Setting, differing
from pipelines.report.several.sides import Side, combine, side_axis

SAME_WORK = "Nothing that was measured differs: the sides did the same work, from the same inputs."


@dataclass(frozen=True)
class Row:
    """One metric of one model on one side."""

    model: str
    metric: str
    """Its name in metrics.json."""
    title: str
    arm: str
    estimate: Estimate
    results: Results
    against: str = ""
    """What it is compared with; "" on the first side, and where that has not measured the same."""
    difference: Difference | None = None
    """None where nothing can be paired."""


@dataclass(frozen=True)
class Compared:
    """A comparison of sides with the first one."""

    titles: list[str]
    settings: list[Setting]
    rows: list[Row]
    problems: list[str]
    """Why sides cannot be compared."""
    costs: list[tuple[str, RunCost, RunCost]]
    """(title, what the side's own stages cost, what those cost that it shares with other cells of its run)."""
    forks: Sequence[ForkPair] = ()
    """Stages of one side that go on from a stage of the first, or that it goes on from."""

    @property
    def over(self) -> list[str]:
        """Return what the differences' intervals are over."""
        known = (row.difference.estimate for row in self.rows if row.difference)
        return sorted({estimate.over for estimate in known if estimate.low is not None})

    def to_json(self) -> dict[str, Any]:
        """Return the comparison for scripts; shares stay shares, p-values are Holm-adjusted."""
        names = [{"model": row.model, "metric": row.metric, "arm": row.arm} for row in self.rows]
        results = [name | _numbers(row.estimate) for name, row in zip(names, self.rows, strict=True)]
        differences = [
            name | {"against": row.against} | _numbers(row.difference.estimate) | {"p": row.difference.p}
            for name, row in zip(names, self.rows, strict=True)
            if row.difference
        ]
        params = [{"stage": one.stage, "name": one.name, "values": list(one.values)} for one in self.settings]
        return {
            "sides": self.titles,
            "params": params,
            "results": results,
            "differences": differences,
            "problems": self.problems,
            "forks": [pair.to_json() for pair in self.forks],
            "costs": [
                {"side": name, "own": own.amount.to_json(), "shared": shared.amount.to_json()}
                | {"saved": own.saved.to_json(), "attempts": own.attempts}
                for name, own, shared in self.costs
            ],
        }


def compare_sides(store: Store, sides: Sequence[Side]) -> Compared:
    """Compare what all sides but the first measured with the first, and their parameters."""
    ledger = Ledger(store)

    def read(stage: Stage) -> dict[str, Any]:
        return settings(ledger, stage.entry) if stage.entry else stage.params

    titles = [side.title(sides) for side in sides]
    tables = result_tables(combine(sides))
    rows = [row for table in tables for row in _rows(table, side_axis(sides), titles)]
    stages = [side.stages for side in sides]
    problems = _problems(titles, stages, rows) if rows or not tables else [SAME_WORK]
    costs = [(name, *side.costs) for name, side in zip(titles, sides, strict=True)]
    runs = list({side.run_id: side.data for side in sides}.values())
    forks = [pair for other in runs[1:] for pair in fork_pairs(runs[0], other)]
    return Compared(titles, differing(stages, read), rows, problems, costs, forks)


def _rows(table: ResultTable, axis: str, titles: Sequence[str]) -> Iterator[Row]:
    """Yield the values of a table by model and metric; what all sides share by the same work is not shown."""
    own = [item for item in table.evaluations if axis in item.arm]
    for key in dict.fromkeys(_key(item, axis) for item in own):
        members = [item for item in own if _key(item, axis) == key]
        first = next((item for item in members if item.arm[axis] == titles[0]), None)
        others = [item for item in members if item is not first]
        for metric, place in table.columns.items():
            moved = [difference(item, first, metric) if first else None for item in others]
            found = dict(zip(map(id, others), adjusted(moved), strict=True))
            for item in members:
                estimate = item.estimate(metric)
                if estimate:
                    against = title(first.arm) if first and item is not first else ""
                    name = metric_title(table, place)
                    yield Row(
                        step_of(item),
                        metric,
                        name,
                        title(item.arm),
                        estimate,
                        table.results,
                        against,
                        found.get(id(item)),
                    )


def _key(item: Evaluation, axis: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Return what the evaluations of the same model have in common on all sides."""
    return step_of(item), tuple(sorted((name, value) for name, value in item.arm.items() if name != axis))


def _problems(titles: Sequence[str], sides: Sequence[Sequence[Stage]], rows: Sequence[Row]) -> list[str]:
    """Return why nothing can be compared, or why a side is missing; nothing if all are compared."""
    if any(row.difference for row in rows):
        compared = {row.arm for row in rows}
        absent = [name for name in titles if not any(name in arm for arm in compared)]
        return [
            f"{name} has measured nothing that the others have: {_ended(of)}" for name, of in _of(titles, sides, absent)
        ]
    if rows and any(row.against for row in rows):
        return ["Nothing can be compared: the sides share no prompt (or seed); evaluate them on the same dataset."]
    known = "; ".join(f"{name}: {_ended(stages)}" for name, stages in zip(titles, sides, strict=True))
    return [f"Nothing can be compared: no two sides measured the same model by themselves. {known}"]


def _of(
    titles: Sequence[str], sides: Sequence[Sequence[Stage]], names: Sequence[str]
) -> list[tuple[str, Sequence[Stage]]]:
    return [(name, stages) for name, stages in zip(titles, sides, strict=True) if name in names]


def _ended(stages: Sequence[Stage]) -> str:
    """Return how the stages of a side ended, in words."""
    return ", ".join(f"{count} {status}" for status, count in Counter(stage.status for stage in stages).items())


def _numbers(estimate: Estimate) -> dict[str, Any]:
    found = {"value": estimate.value, "low": estimate.low, "high": estimate.high, "n": estimate.n}
    known = {name: value for name, value in found.items() if value is not None}
    return known | ({"over": estimate.over} if estimate.low is not None else {})
