"""A run read back from the ledger and its artifacts: plain data for the report and the end table."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from components.contract.artifacts import ArtifactType
from components.contract.component import Component
from components.contract.errors import CorruptArtifact, InputError, PosttrainError
from components.contract.registry import components
from components.runtime.ledger.approvals import decision_on, decision_text, open_question
from components.runtime.ledger.records import (
    alarms_key,
    end_key,
    failure_in,
    failure_key,
    run_key,
    stage_key,
)
from components.runtime.lineage.heal import read_or_copy
from components.runtime.store import Store
from pipelines.plan.costs import RunCost, run_cost
from pipelines.recipe.matrix import slug
from pipelines.report.moves import move_lines

SEED = "seed"
"""The axis whose cells are pooled: each measures the same thing with other random numbers."""
_ROUND = re.compile(r"round(-[0-9]+)?")
FETCHED = (ArtifactType.METRICS, ArtifactType.DATASET, ArtifactType.REPORT)
T = TypeVar("T")


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
    shard_of: str = ""
    """The stage that this one is a shard of."""
    question: str | None = None
    """What a person was asked who has not decided yet; the stage waits for that."""
    decision: str | None = None
    """Who approved or rejected the stage, when, and what there was to see."""
    files: dict[str, Path] = field(default_factory=dict)
    alarms: list[dict[str, Any]] = field(default_factory=list)
    """Alarms that it raised, in their order."""
    unreadable: list[str] = field(default_factory=list)
    """Damaged or missing parts of the stage, one line each: its record, or an output."""
    params: dict[str, Any] = field(default_factory=dict)
    """Parameters as planned, which it has before it ends."""
    cells: dict[str, dict[str, Any]] = field(default_factory=dict, repr=False)
    """Labels of all stages of its run by name: which cell of a matrix an input is from."""
    fixed: dict[str, Any] = field(default_factory=dict)
    """Labels that all stages shown have in common: they are in its name and distinguish nothing."""

    @property
    def status(self) -> str:
        """Return done, cached, skipped, failed, waiting, not run or unreadable."""
        if self.entry is None and self.unreadable:
            return "unreadable"
        if self.entry is None:
            unended = "waiting" if self.question is not None else "not run"
            return "failed" if self.error else unended
        if self.entry["status"] == "skipped":
            return "failed" if self.error else "skipped"
        return "cached" if self.entry["cache"] == "hit" else "done"

    @property
    def rounds(self) -> dict[str, Any]:
        """Return the labels that count the rounds of the repeats around it."""
        repeats = "." in self.group
        return {name: value for name, value in self.labels.items() if repeats and _ROUND.fullmatch(name)}

    @property
    def arm(self) -> dict[str, str]:
        """Return the labels of its cell of the matrix, without its seed."""
        return {axis: str(value) for axis, value in self.labels.items() if axis != SEED and axis not in self.rounds}

    def arm_of(self, source: str) -> dict[str, str]:
        """Return its labels with those of a stage that made its input, which may be of a matrix that it is not in."""
        labels = self.cells.get(source, {}).items()
        left_out = {*self.fixed, *self.arm, SEED}
        others = {axis: str(value) for axis, value in labels if axis not in left_out and not _ROUND.fullmatch(axis)}
        return self.arm | others

    @property
    def step(self) -> str:
        """Return the name that it has in every cell of the matrix: `rl` of `rl-seed-1-method-dapo`."""
        return self.without_cell(self.name)

    def without_cell(self, name: str) -> str:
        """Return the name of this stage, or of one that made its input, without the values of its cell's axes."""
        others = {axis: value for axis, value in self.cells.get(name, {}).items() if axis != SEED}
        values = (others | self.labels | self.fixed).items()
        ends = tuple(f"-{axis}-{slug(value)}" for axis, value in values if axis not in self.rounds)
        while name.endswith(ends):  # independent of the matrix's axis order
            name = min((name.removesuffix(end) for end in ends), key=len)
        return name

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
    cost: RunCost = field(default_factory=RunCost)
    forked: RunData | None = None
    """The run that this one is a fork of, if the store still has it."""
    moves: list[str] = field(default_factory=list)
    """Where it came from, and where it went, in words."""

    @property
    def ended(self) -> list[Stage]:
        """Return the stages with something to show, in plan order."""
        return [stage for stage in self.stages if stage.files or (stage.entry and stage.unreadable)]

    @property
    def repeated(self) -> list[str]:
        """Return the runs whose work this one fully reuses; empty if it did work itself or has not ended."""
        succeeded = self.end is not None and self.end["status"] == "succeeded"
        if not succeeded or any(stage.status not in ("cached", "skipped") for stage in self.stages):
            return []
        entries = [stage.entry for stage in self.stages if stage.status == "cached" and stage.entry]
        return sorted({entry["produced_by"]["run_id"] for entry in entries})


def group_name(stage: Stage) -> str:
    """Return the name shared by all seeds of a stage; other labels stay visible."""
    return stage.group + shared_labels(stage)


def shared_labels(stage: Stage) -> str:
    """Return the labels that distinguish a stage within its group, without its seed: " [arm=x]"."""
    return labels_text({axis: value for axis, value in stage.labels.items() if axis != SEED})


def labels_text(labels: Mapping[str, Any]) -> str:
    """Return labels behind a name: " [arm=x]"; empty without any."""
    return f" [{', '.join(f'{axis}={value}' for axis, value in labels.items())}]" if labels else ""


def declared(name: str) -> Component | None:
    """Return a component's declaration; None if it is not installed here, so that little can be shown."""
    with suppress(PosttrainError):
        component: Component = components().get(name)
        return component
    return None


def collect(store: Store, run_id: str) -> RunData:
    """Read a run's ledger and fetch the artifacts that the report shows.

    Damaged or missing parts are named in their stage's `unreadable`, so that the rest can be shown.
    """
    run = read_or_copy(store, run_key(run_id))
    if run is None:
        raise InputError(f"run {run_id}: its record is damaged or gone, and nothing in the store says the same")
    stages = []
    cells = {planned["name"]: planned.get("labels") or {} for planned in run["stages"]}
    for planned in run["stages"]:
        name = planned["name"]
        unreadable: list[str] = []
        entry = _readable(unreadable, "its record", store.get, stage_key(run_id, name))
        error = failure_in(entry) if entry else None
        if entry is None and not unreadable:
            failure = _readable(unreadable, "its failure", store.get, failure_key(run_id, name))
            error = failure["error"] if failure else None
        raised = _readable(unreadable, "its alarms", store.get, alarms_key(run_id, name)) or {"alarms": [], "kept": {}}
        outputs = entry["outputs"] if entry and not error else raised["kept"]
        wanted = _wanted(planned["component"])
        digests = {port: item["digest"] for port, item in outputs.items() if item["type"] in FETCHED or port in wanted}
        files = {port: _readable(unreadable, f"output {port}", store.fetch, digest) for port, digest in digests.items()}
        stages.append(
            Stage(
                name=name,
                component=planned["component"],
                group=planned.get("group") or name,
                labels=cells[name],
                after=planned["after"],
                entry=entry,
                error=error,
                shard_of=planned.get("shard_of", ""),
                question=None if entry else _open_question(store, run_id, planned, unreadable),
                decision=_decision(store, run_id, planned, unreadable),
                alarms=raised["alarms"],
                files={port: path for port, path in files.items() if path},
                unreadable=unreadable,
                params=planned.get("params") or {},
                cells=cells,
            )
        )
    cost = run_cost(store, run, {stage.name: stage.entry for stage in stages})
    end = read_or_copy(store, end_key(run_id))
    return RunData(run, end, stages, cost, _forked(store, run), move_lines(store, run_id, run))


def _forked(store: Store, run: Mapping[str, Any]) -> RunData | None:
    """Return the run that a run is a fork of, without what that one is a fork of."""
    with suppress(PosttrainError):
        return replace(collect(store, run["fork"]["run"]), forked=None) if run.get("fork") else None
    return None


def _open_question(store: Store, run_id: str, planned: Mapping[str, Any], unreadable: list[str]) -> str | None:
    """Return what a person was asked before a stage and has not answered; None if nobody is being waited for."""
    if not planned.get("needs_approval"):
        return None
    look = partial(open_question, store.get, run_id)
    asked = _readable(unreadable, "its question or its approval", look, planned["name"])
    return str(asked["message"]) if asked else None


def _decision(store: Store, run_id: str, planned: Mapping[str, Any], unreadable: list[str]) -> str | None:
    """Return in words what a person decided on a stage; None if nobody did."""
    if not planned.get("needs_approval"):
        return None
    decision = _readable(unreadable, "its approval", partial(decision_on, store.get, run_id), planned["name"])
    return decision_text(decision) if decision else None


def _wanted(component: str) -> set[str]:
    """Return the outputs that the component's sections of the report show."""
    declaration = declared(component)
    return {section.port for section in declaration.report} if declaration else set()


def _readable(unreadable: list[str], what: str, read: Callable[[str], T | None], key: str) -> T | None:
    """Return the result of `read`, or None after noting that it is damaged or missing."""
    try:
        return read(key)
    except (CorruptArtifact, InputError) as error:
        unreadable.append(f"{what} cannot be read: {error}")
        return None
