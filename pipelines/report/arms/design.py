"""The design of a comparison: the axes that vary, and the arms, which are the cells of these axes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pipelines.report.collect import Stage

SELF_EVIDENT = ("arm", "run", "cell", "side of the comparison")
"""Axes whose values are names: "dapo" says what "arm=dapo" does."""
BASELINES = ("baseline", "control")
"""Values of an axis that name the arm that others are compared with; without one it is the first arm."""


@dataclass(frozen=True)
class Arm:
    """One cell of the matrix over all seeds."""

    labels: Mapping[str, str]
    place: int
    """Its place among the arms, which decides its colour."""

    @property
    def title(self) -> str:
        """Return its values: "learning_rate=0.001, method=dapo"."""
        return title(self.labels)

    def covers(self, labels: Mapping[str, str]) -> bool:
        """Return whether a stage with these labels belongs to the arm; shared stages belong to all arms."""
        return all(self.labels.get(axis, value) == value for axis, value in labels.items())


@dataclass(frozen=True)
class Design:
    """The arms of a run; a recipe without a matrix, or with one of seeds only, has none."""

    axes: Mapping[str, Sequence[str]]
    """The axes that vary, with their values in order."""
    arms: Sequence[Arm]
    sides: str = ""
    """The axis along which runs, or cells, are put side by side; "" of the matrix of a single run."""

    @classmethod
    def of(cls, cells: Iterable[Mapping[str, str]], sides: str = "") -> Design:
        """Return the design of stages with these labels, in the order in which the labels appear."""
        known = [dict(cell) for cell in cells]
        values: dict[str, dict[str, None]] = {}
        for cell in known:
            for axis, value in cell.items():
                values.setdefault(axis, {})[value] = None
        axes = {axis: list(found) for axis, found in values.items() if len(found) > 1}
        varied = [{axis: value for axis, value in cell.items() if axis in axes} for cell in known]
        distinct = list({tuple(sorted(cell.items())): cell for cell in varied if cell}.values())
        whole = [cell for cell in distinct if not any(cell.items() < other.items() for other in distinct)]
        return cls(axes, [Arm(cell, place) for place, cell in enumerate(whole)], sides)

    @classmethod
    def of_stages(cls, stages: Iterable[Stage], sides: str = "") -> Design:
        """Return the design of stages."""
        return cls.of((stage.arm for stage in stages), sides)

    @property
    def compares_cells(self) -> bool:
        """Return whether each side has several cells, each of which is compared with the same one of the first side."""
        return self.sides in self.axes and len(self.axes) > 1

    @property
    def first_side(self) -> str:
        """Return the side that the others are compared with."""
        return self.axes[self.sides][0]

    @property
    def baseline(self) -> Arm:
        """Return the arm that others are compared with."""
        named = (arm for arm in self.arms if any(value.lower() in BASELINES for value in arm.labels.values()))
        return next(named, self.arms[0])

    def shared(self, labels: Mapping[str, str]) -> bool:
        """Return whether a stage with these labels is the same one for all arms."""
        return all(arm.covers(labels) for arm in self.arms)

    def colour(self, labels: Mapping[str, str]) -> int:
        """Return the colour of the first arm that a stage with these labels belongs to."""
        return next((arm.place for arm in self.arms if arm.covers(labels)), 0)

    def varied(self, labels: Mapping[str, str]) -> dict[str, str]:
        """Return the labels on axes that vary."""
        return {axis: value for axis, value in labels.items() if axis in self.axes}


def title(labels: Mapping[str, str]) -> str:
    """Return labels in words: "learning_rate=0.001, method=dapo", "dapo" of an axis `arm`."""
    return ", ".join(value if axis in SELF_EVIDENT else f"{axis}={value}" for axis, value in labels.items())
