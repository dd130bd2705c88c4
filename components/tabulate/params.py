"""Parameters of the tabulate stage."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from components.contract.errors import InputError, did_you_mean
from components.contract.params import Params

Label = str | int | float | bool


class Cell(Params):
    """Where one input comes from: its stage, and its place in the matrix."""

    source: str = ""
    """STAGE.PORT of the run; empty: the input at the same position."""
    stage: str = ""
    """Name of the stage in the recipe, without the matrix."""
    labels: dict[str, Label] = Field(default_factory=dict)
    """Axis -> label."""


class Grid(Params):
    """A table for each domain: one axis down, one across."""

    rows: str = Field(min_length=1)
    """The axis whose labels are the rows."""
    columns: str = Field(min_length=1)
    """The axis whose labels are the columns."""


class Fit(Params):
    """A mixture fitted from the results of several."""

    axis: str = "mixture"
    """The axis whose labels name the mixtures."""
    mixtures: dict[str, dict[str, float]] = Field(min_length=1)
    """Label -> domain -> share, of any sum; domains left out have none."""
    objective: dict[str, float] = Field(default_factory=dict)
    """Weight of each measured domain in what is to be high; empty: their mean."""
    ridge: float | None = Field(default=None, gt=0)
    """Penalty on the squares of the coefficients; none: that of the least error when each mixture is left out."""
    surface: Literal["quadratic", "linear"] = "quadratic"
    """The surface whose highest point is the mixture. A linear one is highest at a single domain: for comparison."""

    @property
    def domains(self) -> list[str]:
        """Return the domains that are mixed, sorted."""
        return sorted({domain for shares in self.mixtures.values() for domain in shares})

    @model_validator(mode="after")
    def _mixtures_are_usable(self) -> Fit:
        for label, shares in self.mixtures.items():
            if not all(0 <= share < float("inf") for share in shares.values()) or not any(shares.values()):
                raise InputError(f"mixtures.{label}: shares are numbers from 0, and not all 0; found {shares}")
        needed = len(self.domains) + 2
        if len(self.mixtures) < needed:
            raise InputError(
                f"mixtures: there are {len(self.mixtures)} of {len(self.domains)} domains; a surface takes {needed}"
            )
        weights = self.objective.values()
        if not all(0 <= weight < float("inf") for weight in weights) or (weights and not any(weights)):
            raise InputError(f"objective: weights are numbers from 0, and not all 0; found {self.objective}")
        return self


class TabulateParams(Params):
    """What the table shows."""

    cells: tuple[Cell, ...] = ()
    """Of each artifact at input `metrics`; filled in from the recipe's matrix unless given."""
    training_cells: tuple[Cell, ...] = ()
    """Of each artifact at input `training`, likewise."""
    repeats: tuple[str, ...] = ("seed",)
    """Axes along which an arm is repeated: its values are means over them."""
    baseline: str | None = None
    """The arm that all others are compared with, as the table names it: the labels of its axes but the repeats, or its
    stage if it has none. None: no comparison."""
    grid: Grid | None = None
    """Also a table for each domain, with one axis down and one across."""
    curve: str = "heldout_pass_rate"
    """Column of the training history that is compared at equal sampled tokens, where input `training` is connected."""
    fit: Fit | None = None
    """Fit a mixture of domains to the arms' results, for curate's mixture `fitted`."""
    bootstrap_samples: int = Field(default=2000, ge=100, le=100_000)
    """Resamples of the prompts behind the intervals of arms with one repeat."""
    confidence: float = Field(default=0.95, gt=0.5, lt=1)
    """Coverage of every interval."""

    @model_validator(mode="after")
    def _arms_are_there(self) -> TabulateParams:
        """Check what the arms' labels decide; without cells nothing is known yet."""
        names = {arm_name(cell, self.repeats) for cell in self.cells}
        if self.baseline is not None and names and self.baseline not in names:
            raise InputError(
                f"baseline: no arm is called {self.baseline!r}{did_you_mean(self.baseline, names)}; there are "
                f"{', '.join(map(repr, sorted(names)))}"
            )
        axes = {axis for cell in self.cells for axis in cell.labels}
        wanted = [("grid.rows", self.grid.rows), ("grid.columns", self.grid.columns)] if self.grid else []
        wanted += [("fit.axis", self.fit.axis)] if self.fit else []
        for field, axis in wanted if self.cells else ():
            if axis not in axes:
                there = ", ".join(map(repr, sorted(axes))) or "none"
                raise InputError(f"{field}: no input has the axis {axis!r}; there are {there}")
        self._mixtures_are_known()
        return self

    def _mixtures_are_known(self) -> None:
        if self.fit is None or not self.cells:
            return
        labels = {str(cell.labels[self.fit.axis]) for cell in self.cells if self.fit.axis in cell.labels}
        if unknown := sorted(labels - self.fit.mixtures.keys()):
            raise InputError(f"fit.mixtures: no shares for {', '.join(map(repr, unknown))} of axis {self.fit.axis!r}")


def arm_name(cell: Cell, repeats: tuple[str, ...]) -> str:
    """Return the name of an arm: its labels without the repeats, or its stage if none is left."""
    labels = [str(label) for axis, label in cell.labels.items() if axis not in repeats]
    return " ".join(labels) or cell.stage or cell.source or "arm"
