"""The words of the section `sweep`."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StrictFloat, StrictInt, model_validator

from components.contract.job import OnFailure

MAX_TRIALS = 200
DEFAULT_BATCH = 4

Number = StrictInt | StrictFloat


class _Words(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class RangeWords(_Words):
    """A range of numbers: whole ones if both ends are."""

    low: Number
    high: Number
    log: bool = False
    """Search on a logarithmic scale."""
    step: Number | None = Field(default=None, gt=0)
    """Distance between values."""
    points: int | None = Field(default=None, strict=True, ge=2, le=MAX_TRIALS)
    """How many values a grid takes of it."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.low < self.high:
            raise ValueError(f"low {self.low} is not below high {self.high}")
        if self.log and self.low <= 0:
            raise ValueError(f"a logarithmic scale needs a low above 0, got {self.low}")
        if self.log and self.step is not None:
            raise ValueError("give log or step, not both")
        if self.whole and isinstance(self.step, float):
            raise ValueError(f"step {self.step} of a range of whole numbers is not a whole number")
        return self

    @property
    def whole(self) -> bool:
        """Return whether the values are whole numbers."""
        return isinstance(self.low, int) and isinstance(self.high, int)


class StopWords(_Words):
    """A rung: a metric of a trial, and the limit below which its later stages do not run."""

    at: str = Field(min_length=1)
    """stage.metric"""
    keep: float | None = Field(default=None, gt=0, lt=1)
    """Share of the trials measured so far that go on."""
    at_least: Number | None = None
    at_most: Number | None = None

    @model_validator(mode="after")
    def _one_limit(self) -> Self:
        if sum(limit is not None for limit in (self.keep, self.at_least, self.at_most)) != 1:
            raise ValueError("expected exactly one of keep (0.5 stops those below the median), at_least and at_most")
        return self


class SweepWords(_Words):
    """The section `sweep` of a recipe."""

    space: dict[str, Any] = Field(min_length=1)
    """Parameter of the recipe -> its values: a list, or {low, high, log, step}."""
    maximize: str | None = None
    """stage.metric, more of which is better."""
    minimize: str | None = None
    """stage.metric, less of which is better."""
    trials: int | None = Field(default=None, strict=True, ge=2, le=MAX_TRIALS)
    sampler: Literal["random", "halton", "grid", "tpe"] = "random"
    batch: int | None = Field(default=None, strict=True, ge=1, le=MAX_TRIALS)
    """Trials that TPE draws together, and that run side by side."""
    on_failure: OnFailure = "stop"
    """Whether a trial that fails stops the run, or counts as failed beside the others."""
    stop: list[StopWords] = Field(default_factory=list, max_length=4)
    """Rungs that stop trials early."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if (self.maximize is None) == (self.minimize is None):
            raise ValueError("expected exactly one of maximize and minimize: stage.metric")
        if self.sampler == "grid" and self.trials is not None:
            raise ValueError("a grid has all its points as trials; leave trials out")
        if self.sampler != "grid" and self.trials is None:
            raise ValueError(f"trials is missing: how many does {self.sampler} draw?")
        if self.batch is not None and self.sampler != "tpe":
            raise ValueError(f"batch is for tpe, which draws in rounds; {self.sampler} draws all trials at once")
        return self

    @property
    def objective(self) -> str:
        """Return the stage.metric that decides."""
        return self.maximize or self.minimize or ""

    @property
    def direction(self) -> Literal["maximize", "minimize"]:
        """Return whether more or less of the objective is better."""
        return "maximize" if self.maximize else "minimize"
