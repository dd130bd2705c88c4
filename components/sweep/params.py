"""Parameters of the sweep stage. A recipe's section `sweep` writes them; results of trials come in from the run."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from components.contract.params import Params


class Dimension(Params):
    """The values that one swept parameter can have: a list of choices, or a range."""

    choices: tuple[Any, ...] = ()
    """The values to choose from; empty for a range."""
    low: float = 0.0
    """Least value of a range."""
    high: float = 0.0
    """Greatest value of a range."""
    log: bool = False
    """Whether the range is searched on a logarithmic scale."""
    step: float | None = None
    """Distance between values of a range; unset: any value, or any whole number."""
    whole: bool = False
    """Whether values of the range are whole numbers."""


class Trial(Params):
    """One trial: its parameters and what its stages measured."""

    number: int = Field(ge=1)
    """Its number, from 1."""
    params: dict[str, Any]
    """Values of the swept parameters."""
    values: tuple[float | None, ...] = ()
    """The objective, of every cell of a matrix around it; null where a stage was skipped."""
    rungs: tuple[tuple[float | None, ...], ...] = ()
    """The metric of each rung, likewise."""
    failures: tuple[str | None, ...] = ()
    """Why each of its stages failed, null for those that did not; empty where a failure stops the run."""


class Rung(Params):
    """A point at which trials that fall behind are stopped. Exactly one of the limits is set."""

    metric: str
    """stage.metric that trials are compared by."""
    keep: float | None = Field(default=None, gt=0, lt=1)
    """Share of the trials measured so far that go on; 0.5 stops those below the median."""
    at_least: float | None = None
    """Value that a trial must reach."""
    at_most: float | None = None
    """Value that a trial must not exceed."""


class SweepParams(Params):
    """Parameters of the sweep stage."""

    task: Literal["draw", "judge", "conclude"]
    """Draw the parameters of further trials, judge who goes on at a rung, or conclude which trial is the best."""
    objective: str
    """stage.metric that decides."""
    direction: Literal["maximize", "minimize"]
    """Whether more or less of the objective is better."""
    sampler: str = "random"
    """Name of the sampler, for people."""
    space: dict[str, Dimension]
    """Swept parameter -> its values."""
    trials: tuple[Trial, ...]
    """The trials so far."""
    rungs: tuple[Rung, ...] = ()
    """All rungs, in order."""
    draw: tuple[int, ...] = ()
    """Numbers of the trials to draw."""
    judge: tuple[int, ...] = ()
    """Numbers of the trials to judge."""
    rung: int = Field(default=0, ge=0)
    """Position of the rung that judges."""
