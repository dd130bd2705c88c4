"""What a run measured, read back from the ledger and its artifacts: plain data for the report and the end table."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from components.contract.errors import CorruptArtifact, InputError
from components.runtime.ledger.records import end_key, failure_key, run_key, stage_key
from components.runtime.lineage.heal import read_or_copy
from components.runtime.lineage.names import flatten
from components.runtime.store import Store

HEADLINE = "pass_at_1_"
MAX_DIFFERING, MAX_LABEL = 2, 40
"""Settings, and characters of them, that a row's label names."""
T = TypeVar("T")


@dataclass(frozen=True)
class Estimate:
    """A number with its interval; `n` counts what the interval is over (prompts, or seeds)."""

    value: float
    low: float | None = None
    high: float | None = None
    n: int | None = None
    over: str = "prompts"

    def cut(self, least: float, most: float) -> Estimate:
        """Return the same with its interval cut at the ends of what is possible."""
        if self.low is None or self.high is None:
            return self
        return replace(self, low=max(self.low, least), high=min(self.high, most))


@dataclass
class Stage:
    """One ended (or failed, or never started) stage of the run."""

    name: str
    component: str
    group: str
    labels: dict[str, Any]
    after: list[str]
    entry: dict[str, Any] | None
    error: str | None = None
    files: dict[str, Path] = field(default_factory=dict)
    unreadable: list[str] = field(default_factory=list)
    """What of the stage is damaged or gone, one line each: its record, or an output."""

    @property
    def status(self) -> str:
        """Return done, cached, skipped, failed, not run or unreadable."""
        if self.entry is None and self.unreadable:
            return "unreadable"
        if self.entry is None:
            return "failed" if self.error else "not run"
        if self.entry["status"] == "skipped":
            return "skipped"
        return "cached" if self.entry["cache"] == "hit" else "done"

    @property
    def seconds(self) -> float:
        """Return the seconds that the stage took in this run."""
        return float(self.entry["seconds"]) if self.entry else 0.0

    def json(self, port: str, name: str) -> Any:
        """Return the content of a JSON file in an output, or None if there is none."""
        path = self.files[port] / name if port in self.files else None
        return json.loads(path.read_text()) if path is not None and path.is_file() else None

    def lines(self, port: str, name: str) -> list[dict[str, Any]]:
        """Return the rows of a JSON-lines file in an output; empty if there is none."""
        path = self.files[port] / name if port in self.files else None
        if path is None or not path.is_file():
            return []
        return [json.loads(line) for line in path.read_text().splitlines() if line]


@dataclass
class RunData:
    """Everything that the report shows."""

    run: dict[str, Any]
    end: dict[str, Any] | None
    stages: list[Stage]

    def of(self, *components: str) -> list[Stage]:
        """Return the ended stages of some components, in the order of the plan."""
        ended = (stage for stage in self.stages if stage.component in components)
        return [stage for stage in ended if stage.files or (stage.entry and stage.unreadable)]

    @cached_property
    def evaluations(self) -> list[Evaluation]:
        """Return one evaluation per group of stages, the seeds of a group taken together."""
        groups: dict[str, list[Stage]] = {}
        for stage in self.of("evaluate"):
            groups.setdefault(group_name(stage), []).append(stage)
        found = [Evaluation(name, stages) for name, stages in groups.items()]
        _tell_apart(found)
        return found

    @property
    def domains(self) -> list[str]:
        """Return the domains that were evaluated, in order of appearance."""
        return list(dict.fromkeys(domain for item in self.evaluations for domain in item.domains))

    @property
    def repeated(self) -> list[str]:
        """Return the runs whose work this one repeats with none of its own; empty if it did some or has not ended."""
        succeeded = self.end is not None and self.end["status"] == "succeeded"
        if not succeeded or any(stage.status not in ("cached", "skipped") for stage in self.stages):
            return []
        return sorted(
            {stage.entry["produced_by"]["run_id"] for stage in self.stages if stage.entry and stage.status == "cached"}
        )


@dataclass
class Evaluation:
    """The evaluations of one model in one recipe stage, over all seeds."""

    name: str
    stages: list[Stage]
    differs: str = ""
    """What tells it from other evaluations of the same model."""

    @property
    def model(self) -> str:
        """Return which stage's model was evaluated, with the evaluation's labels but its seed, and what differs."""
        return self.measured + (f" ({self.differs})" if self.differs else "")

    @property
    def facts(self) -> dict[str, str]:
        """Return what may differ between evaluations of a model: parameters as written, and the other inputs."""
        entry = self.stages[0].entry or {"params": {}, "inputs": {}}
        inputs = {port: items for port, items in entry["inputs"].items() if port != "model"}
        sources = {port: "+".join(item["source"] for item in items) for port, items in inputs.items()}
        return {name: str(value) for name, value in flatten(entry["params"])} | sources

    @property
    def measured(self) -> str:
        """Return which stage's model was evaluated, with the evaluation's labels but its seed."""
        first = self.stages[0]
        entry = first.entry
        source = entry["inputs"]["model"][0]["source"] if entry and entry["inputs"].get("model") else first.group
        return _without_labels(source.partition(".")[0], first.labels) + _shared_labels(first)

    @property
    def domains(self) -> list[str]:
        """Return the domains with a pass@1."""
        names = (name for stage in self.stages for name in metrics_of(stage))
        return list(dict.fromkeys(name.removeprefix(HEADLINE) for name in names if name.startswith(HEADLINE)))

    def estimate(self, metric: str) -> Estimate | None:
        """Return a metric: its bootstrap interval for one seed, mean and t interval over several."""
        found = [metrics_of(stage)[metric] for stage in self.stages if metric in metrics_of(stage)]
        if not found:
            return None
        if len(found) > 1:
            estimate = over_seeds([item["value"] for item in found])
            return estimate.cut(0, 1) if metric.startswith(HEADLINE) else estimate
        only = found[0]
        return Estimate(only["value"], only.get("low"), only.get("high"), only.get("n"))

    def values(self, metric: str) -> list[float]:
        """Return the metric of each seed."""
        return [metrics_of(stage)[metric]["value"] for stage in self.stages if metric in metrics_of(stage)]


def metrics_of(stage: Stage) -> dict[str, dict[str, Any]]:
    """Return metric -> {"value", "low", "high", "n"} of a stage, from its Metrics output or else its headline."""
    for port in stage.files:
        found: dict[str, dict[str, Any]] = stage.json(port, "metrics.json")
        if found:
            return found
    return {name: {"value": value} for name, value in (stage.entry or {}).get("metrics", {}).items()}


def group_name(stage: Stage) -> str:
    """Return the name that all seeds of a stage share: other labels stay visible."""
    return stage.group + _shared_labels(stage)


def _shared_labels(stage: Stage) -> str:
    others = [f"{axis}={value}" for axis, value in stage.labels.items() if axis != "seed"]
    return f" [{', '.join(others)}]" if others else ""


def _tell_apart(evaluations: list[Evaluation]) -> None:
    """Say of evaluations of the same model in what they differ: settings where few do, else the stages' names."""
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


def over_seeds(values: list[float]) -> Estimate:
    """Return mean and two-sided 95 % Student t interval over independent seeds (at least two)."""
    from components.measure.intervals import seed_interval

    found = seed_interval(values)
    return Estimate(found.value, found.low, found.high, found.n, "seeds")


def _without_labels(name: str, labels: dict[str, Any]) -> str:
    ends = tuple(f"-{axis}-{value}" for axis, value in labels.items())
    while name.endswith(ends):  # in whatever order the matrix has its axes
        name = min((name.removesuffix(end) for end in ends), key=len)
    return name


def collect(store: Store, run_id: str, *, fetch: Iterable[str] = ("Metrics", "Dataset", "Report")) -> RunData:
    """Read a run's ledger and fetch the small artifacts that the report shows.

    What is damaged or gone is named in its stage's `unreadable`, so that the rest can be shown.
    """
    run = read_or_copy(store, run_key(run_id))
    if run is None:
        raise InputError(f"run {run_id}: its record is damaged or gone, and nothing in the store says the same")
    wanted = set(fetch)
    stages = []
    for planned in run["stages"]:
        name = planned["name"]
        unreadable: list[str] = []
        entry = _readable(unreadable, "its record", store.get, stage_key(run_id, name))
        failure = None
        if entry is None and not unreadable:
            failure = _readable(unreadable, "its failure", store.get, failure_key(run_id, name))
        outputs = entry["outputs"] if entry else {}
        digests = {port: item["digest"] for port, item in outputs.items() if item["type"] in wanted}
        files = {port: _readable(unreadable, f"output {port}", store.fetch, digest) for port, digest in digests.items()}
        stages.append(
            Stage(
                name=name,
                component=planned["component"],
                group=planned["group"] or name,
                labels=planned["labels"],
                after=planned["after"],
                entry=entry,
                error=failure["error"] if failure else None,
                files={port: path for port, path in files.items() if path},
                unreadable=unreadable,
            )
        )
    return RunData(run, read_or_copy(store, end_key(run_id)), stages)


def _readable(unreadable: list[str], what: str, read: Callable[[str], T | None], key: str) -> T | None:
    """Return what `read` does, or None after noting that it is damaged or gone."""
    try:
        return read(key)
    except (CorruptArtifact, InputError) as error:
        unreadable.append(f"{what} cannot be read: {error}")
        return None
