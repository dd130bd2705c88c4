"""Results per model: components that declare the same results share a table, with seeds combined."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from components.contract.artifacts import METRICS_FILE
from components.contract.display import Results, in_places
from components.runtime.lineage.names import flatten
from pipelines.report.collect import RunData, Stage, declared, group_name, labels_text

MAX_DIFFERING, MAX_LABEL = 2, 40
"""Most settings, and characters of them, in a row's label."""


@dataclass(frozen=True)
class Estimate:
    """A number with its interval; `n` counts what the interval is over (prompts, or seeds)."""

    value: float
    low: float | None = None
    high: float | None = None
    n: int | None = None
    over: str = "prompts"

    @classmethod
    def read(cls, entry: Mapping[str, Any], over: str = "prompts") -> Estimate:
        """Return the estimate of an entry of metrics.json."""
        return cls(entry["value"], entry.get("low"), entry.get("high"), entry.get("n"), over)

    def cut(self, least: float, most: float) -> Estimate:
        """Return the estimate with its interval clipped to the possible range."""
        if self.low is None or self.high is None:
            return self
        return replace(self, low=max(self.low, least), high=min(self.high, most))


@dataclass
class Evaluation:
    """The evaluations of one model in one recipe stage, over all seeds."""

    name: str
    stages: list[Stage]
    results: Results
    differs: str = ""
    """What distinguishes it from other evaluations of the same model."""

    @property
    def model(self) -> str:
        """Return the stage whose model was evaluated, with the evaluation's labels but its seed, and what differs."""
        return self.measured + (f" ({self.differs})" if self.differs else "")

    @property
    def facts(self) -> dict[str, str]:
        """Return what can differ between evaluations of a model: parameters as written, and the other inputs."""
        entry = self.stages[0].entry or {"params": {}, "inputs": {}}
        inputs = {port: items for port, items in entry["inputs"].items() if port != self.results.subject}
        sources = {port: "+".join(item["source"] for item in items) for port, items in inputs.items()}
        return {name: str(value) for name, value in flatten(entry["params"])} | sources

    @property
    def measured(self) -> str:
        """Return the stage whose model was evaluated, with the evaluation's labels without its seed."""
        return self.step + labels_text(self.arm)

    @property
    def step(self) -> str:
        """Return the stage whose model was evaluated, by the name that it has in every cell of the matrix."""
        first, source = self.stages[0], self._source
        return first.without_cell(source) if source else first.group

    @property
    def arm(self) -> dict[str, str]:
        """Return the cell of the matrix that it evaluates, without its seed."""
        return self.stages[0].arm_of(self._source)

    @property
    def _source(self) -> str:
        """Return the name of the stage whose model was evaluated; "" if it is not known."""
        first = self.stages[0]
        given = first.entry["inputs"].get(self.results.subject) if first.entry else None
        return str(given[0]["source"]).partition(".")[0] if given else ""

    @property
    def columns(self) -> dict[str, str]:
        """Return the measured compared metrics, each with its placeholder's value, such as the domain."""
        return in_places(self.results.metric, (name for stage in self.stages for name in metrics_of(stage)))

    def estimate(self, metric: str) -> Estimate | None:
        """Return a metric: its bootstrap interval for one seed, mean and t interval over several."""
        found = [metrics_of(stage)[metric] for stage in self.stages if metric in metrics_of(stage)]
        if not found:
            return None
        if len(found) == 1:
            return Estimate.read(found[0], self.results.over)
        estimate = over_seeds([item["value"] for item in found])
        return estimate.cut(0, 1) if self.results.share and metric in self.columns else estimate

    def values(self, metric: str) -> list[float]:
        """Return the metric of each seed."""
        return [metrics_of(stage)[metric]["value"] for stage in self.stages if metric in metrics_of(stage)]


@dataclass
class ResultTable:
    """All evaluations of one run that declare the same results."""

    results: Results
    components: set[str] = field(default_factory=set)
    evaluations: list[Evaluation] = field(default_factory=list)
    missing: list[Stage] = field(default_factory=list)
    """Stages that should have measured as well and have not ended, or were skipped."""

    @property
    def columns(self) -> dict[str, str]:
        """Return the compared metrics in order of appearance, each with its title: the domain, or the metric's name."""
        found = {metric: place for item in self.evaluations for metric, place in item.columns.items()}
        return {metric: place or self.results.name for metric, place in found.items()}

    def over(self) -> list[str]:
        """Return what the table's intervals cover: prompts, seeds, both or nothing."""
        found = (item.estimate(metric) for item in self.evaluations for metric in self.columns)
        return sorted({estimate.over for estimate in found if estimate and estimate.low is not None})


def result_tables(data: RunData) -> list[ResultTable]:
    """Return the results of a run, a table per kind of results, in plan order."""
    tables: dict[tuple[str, str], ResultTable] = {}
    groups: dict[tuple[str, str, str], Evaluation] = {}
    ended = {id(stage) for stage in data.ended}
    for stage in data.stages:
        component = declared(stage.component)
        if component is None or component.results is None:
            continue
        results = component.results
        key = results.name, results.metric
        table = tables.setdefault(key, ResultTable(results))
        if id(stage) not in ended:
            table.missing.append(stage)
            continue
        table.components.add(component.name)
        name = group_name(stage)
        if (*key, name) not in groups:
            groups[*key, name] = Evaluation(name, [], results)
            table.evaluations.append(groups[*key, name])
        groups[*key, name].stages.append(stage)
    for table in tables.values():
        _tell_apart(table.evaluations)
    return [table for table in tables.values() if table.evaluations]


def metrics_of(stage: Stage) -> dict[str, dict[str, Any]]:
    """Return metric -> {"value", "low", "high", "n"} of a stage, from its Metrics output or else its headline."""
    for port in stage.files:
        found: dict[str, dict[str, Any]] = stage.json(port, METRICS_FILE)
        if found:
            return found
    return {name: {"value": value} for name, value in (stage.entry or {}).get("metrics", {}).items()}


def over_seeds(values: list[float]) -> Estimate:
    """Return mean and two-sided 95 % Student t interval over independent seeds (at least two)."""
    from components.measure.intervals import seed_interval

    found = seed_interval(values)
    return Estimate(found.value, found.low, found.high, found.n, "seeds")


def _tell_apart(evaluations: list[Evaluation]) -> None:
    """Label evaluations of the same model by what differs: settings if few do, else the stages' names.

    Afterwards no two have the same label.
    """
    alike: dict[str, list[Evaluation]] = {}
    for item in evaluations:
        alike.setdefault(item.measured, []).append(item)
    for items in (items for items in alike.values() if len(items) > 1):
        names = dict.fromkeys(name for item in items for name in item.facts)
        differing = [name for name in names if len({item.facts.get(name) for item in items}) > 1]
        told = [", ".join(f"{name}={item.facts.get(name, 'default')}" for name in differing) for item in items]
        clear = len(set(told)) == len(items) and len(differing) <= MAX_DIFFERING
        names_differ = len({item.stages[0].group for item in items}) == len(items)  # rounds of a repeat share one
        for item, text in zip(items, told, strict=True):
            name = item.stages[0].group if names_differ else item.name
            item.differs = text if clear and len(text) <= MAX_LABEL else name
    # A winner that was measured once more is named as its rivals are, so that its first result stays beside theirs.
    by_stage = {(item.step, item.differs) for item in evaluations if item.differs == item.stages[0].group}
    for item in evaluations:
        if (item.step, item.stages[0].group) in by_stage:
            item.differs = item.stages[0].group
    shared = Counter(item.model for item in evaluations)
    for item in evaluations:
        if shared[item.model] > 1:
            item.differs = item.name
