"""Sides of a comparison: whole runs, cells of their matrices, or all arms of one run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from components.contract.errors import InputError, did_you_mean
from pipelines.plan.costs import RunCost
from pipelines.report.arms.design import Design, title
from pipelines.report.collect import RunData, Stage

RUN_AXES, ARM_AXES = ("run", "side of the comparison"), ("arm", "cell", "side of the comparison")
"""Names of the axis along which the sides are; the last of them is no name that a matrix's axis could have."""


@dataclass(frozen=True)
class Side:
    """One side: a run, or the stages of it that belong to a cell."""

    data: RunData
    cell: Mapping[str, str]
    """Axis -> value; empty for a whole run."""

    @property
    def run_id(self) -> str:
        """Return the run."""
        return str(self.data.run["run_id"])

    @property
    def stages(self) -> list[Stage]:
        """Return the stages of the cell and those that it shares with others."""
        found = [stage for stage in self.data.stages if _agrees(stage.labels, self.cell)]
        return [_in_cell(stage, self.cell) for stage in found]

    @property
    def costs(self) -> tuple[RunCost, RunCost]:
        """Return what its own stages cost, and those that it shares with other cells of its run."""
        names = {stage.name for stage in self.stages}
        own = {stage.name for stage in self.data.stages if not self.cell or self.cell.keys() & stage.labels.keys()}
        return self.data.cost.of(names & own), self.data.cost.of(names - own)

    def title(self, others: Iterable[Side]) -> str:
        """Return a name that is different from those of the others."""
        name = title(self.cell)
        if name and all(other.run_id == self.run_id for other in others):
            return name
        return f"{self.run_id} {name}".rstrip()


def cell_of(data: RunData, text: str) -> Side:
    """Return the cell of a run's matrix that a text names: "lr=0.001,seed=1", "0.001", or a stage's full name.

    Raises InputError with the run's arms.
    """
    values = _axes(data.stages)
    named = next((stage for stage in data.stages if stage.name == text and stage.labels), None)
    if named:
        return Side(data, {axis: str(value) for axis, value in named.labels.items() if axis not in named.rounds})
    cell: dict[str, str] = {}
    for part in text.strip("[]").split(","):
        axis, equals, value = (word.strip() for word in part.partition("="))
        if not equals:
            owners = [name for name, known in values.items() if axis in known]
            axis, value = (owners[0] if len(owners) == 1 else "", axis)
        if value not in values.get(axis, ()):
            raise InputError(_no_cell(data, part.strip(), values))
        cell[axis] = value
    if not any(cell.items() <= _labels(stage).items() for stage in data.stages):
        raise InputError(_no_cell(data, text, values))
    return Side(data, cell)


def arms_of(data: RunData) -> list[Side]:
    """Return the arms of a run, the baseline first; raise InputError if its recipe has no matrix but one of seeds."""
    design = Design.of_stages(data.stages)
    if len(design.arms) < 2:
        what = "its matrix has only seeds, which are pooled" if "seed" in _axes(data.stages) else "it has no matrix"
        run_id = data.run["run_id"]
        raise InputError(
            f"run {run_id} has no arms to compare: {what}; name another run (posttrain compare {run_id} RUN) or cells"
        )
    arms = sorted(design.arms, key=lambda arm: arm != design.baseline)
    return [Side(data, dict(arm.labels)) for arm in arms]


def combine(sides: Sequence[Side]) -> RunData:
    """Return the stages of all sides as the arms of one design, over the axis "run" or "arm".

    Stages that do the same work on all sides, as those of a cached start, are shared by all arms.
    """
    axis = side_axis(sides)
    titles = [side.title(sides) for side in sides]
    of_sides = [{_key(stage): stage for stage in side.stages} for side in sides]
    keys = dict.fromkeys(key for found in of_sides for key in found)
    stages: list[Stage] = []
    for key in keys:
        found = [(name, stages_of[key]) for name, stages_of in zip(titles, of_sides, strict=True) if key in stages_of]
        if len(found) == len(sides) > 1 and _same_work([stage for _, stage in found]):
            stages.append(found[0][1])
        else:
            stages += [replace(stage, labels={axis: name, **stage.labels}) for name, stage in found]
    return RunData(sides[0].data.run, sides[0].data.end, stages)


def side_axis(sides: Sequence[Side]) -> str:
    """Return the name of the axis along which the sides are: one that their matrices do not have."""
    taken = {axis for side in sides for stage in side.stages for axis in stage.labels}
    names = RUN_AXES if len({side.run_id for side in sides}) > 1 else ARM_AXES
    return next((name for name in names if name not in taken), names[-1])


def _key(stage: Stage) -> tuple[str, str]:
    return stage.step, str(sorted((axis, str(value)) for axis, value in stage.labels.items()))


def _same_work(stages: Sequence[Stage]) -> bool:
    """Return whether stages made the same from the same."""
    work = {(entry.get("fingerprint") if (entry := stage.entry) else None) for stage in stages}
    return len(work) == 1 and None not in work


def _agrees(labels: Mapping[str, Any], cell: Mapping[str, str]) -> bool:
    return all(str(labels[axis]) == value for axis, value in cell.items() if axis in labels)


def _in_cell(stage: Stage, cell: Mapping[str, str]) -> Stage:
    """Return a stage whose labels are those that vary within the cell."""
    fixed = {axis: value for axis, value in stage.labels.items() if axis in cell}
    labels = {axis: value for axis, value in stage.labels.items() if axis not in cell}
    return replace(stage, labels=labels, fixed=stage.fixed | fixed)


def _labels(stage: Stage) -> dict[str, str]:
    return {axis: str(value) for axis, value in stage.labels.items()}


def _axes(stages: Iterable[Stage]) -> dict[str, list[str]]:
    """Return the axes of a matrix, seeds among them, with their values."""
    found: dict[str, dict[str, None]] = {}
    for stage in stages:
        for axis, value in stage.labels.items():
            if axis not in stage.rounds:
                found.setdefault(axis, {})[str(value)] = None
    return {axis: list(values) for axis, values in found.items()}


def _no_cell(data: RunData, text: str, values: Mapping[str, Sequence[str]]) -> str:
    run_id = data.run["run_id"]
    if not values:
        return f"run {run_id} has no cell {text!r}: its recipe has no matrix"
    known = [f"{axis}={value}" for axis, found in values.items() for value in found]
    return f"run {run_id} has no cell {text!r}{did_you_mean(text, known)}"
