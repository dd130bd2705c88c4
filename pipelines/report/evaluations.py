"""Results per model: components that declare the same results share a table, with seeds combined."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from components.contract.artifacts import METRICS_FILE
from components.contract.display import Results, in_places
from components.runtime.lineage.names import flatten
from pipelines.report.collect import RunData, Stage, declared, group_name, shared_labels

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
        first = self.stages[0]
        given = first.entry["inputs"].get(self.results.subject) if first.entry else None
        source = given[0]["source"] if given else first.group
        return _without_labels(source.partition(".")[0], first.labels) + shared_labels(first)

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
    for stage in data.ended:
        component = declared(stage.component)
        if component is None or component.results is None:
            continue
        results = component.results
        key = results.name, results.metric
        table = tables.setdefault(key, ResultTable(results))
        table.components.add(component.name)
        name = group_name(stage)
        if (*key, name) not in groups:
            groups[*key, name] = Evaluation(name, [], results)
            table.evaluations.append(groups[*key, name])
        groups[*key, name].stages.append(stage)
    for table in tables.values():
        _tell_apart(table.evaluations)
    return list(tables.values())


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
    """Label evaluations of the same model by what differs: settings if few do, else the stages' names."""
    alike: dict[str, list[Evaluation]] = {}
    for item in evaluations:
        alike.setdefault(item.measured, []).append(item)
    for items in (items for items in alike.values() if len(items) > 1):
        names = dict.fromkeys(name for item in items for name in item.facts)
        differing = [name for name in names if len({item.facts.get(name) for item in items}) > 1]
        told = [", ".join(f"{name}={item.facts.get(name, 'default')}" for name in differing) for item in items]
        clear = len(set(told)) == len(items) and len(differing) <= MAX_DIFFERING
        for item, text in zip(items, told, strict=True):
            item.differs = text if clear and len(text) <= MAX_LABEL else item.stages[0].group


def _without_labels(name: str, labels: dict[str, Any]) -> str:
    ends = tuple(f"-{axis}-{value}" for axis, value in labels.items())
    while name.endswith(ends):  # independent of the matrix's axis order
        name = min((name.removesuffix(end) for end in ends), key=len)
    return name
