"""A record of a reproduction as typed data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from components.contract.errors import InputError, schema_problems
from pipelines.methods.verdict import Verdict
from pipelines.recipe.hallmark_words import Direction


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Ends(_Part):
    """A mean with its interval; ends that are unknown are None."""

    value: float
    low: float | None = None
    high: float | None = None


class Decided(_Part):
    """The decision on a primary measure."""

    verdict: Verdict
    look: int
    confidence: float
    interval: Ends
    p: float
    more_seeds: int | None = None


class RecordedValue(_Part):
    """A quantity of every arm."""

    value: str
    """Expression over stage.metric."""
    arms: dict[str, list[float]]
    """Arm -> value at each seed."""

    def mean_of(self, arm: str) -> float:
        """Return an arm's mean over seeds."""
        values = self.arms.get(arm) or [math.nan]
        return math.fsum(values) / len(values)


class RecordedEffect(RecordedValue):
    """A quantity with its effects."""

    effect: str
    """Expression over arms."""
    interval: Ends
    effects: list[float]
    """At each seed."""


class RecordedClaim(RecordedEffect):
    """A primary measure."""

    name: str
    direction: Direction
    floor: float = Field(gt=0, allow_inf_nan=False)
    floor_from: str
    decision: Decided | None


class RecordedCondition(RecordedEffect):
    """A precondition or a sign of activity."""

    at_least: float | None = None
    at_most: float | None = None
    mean: float
    holds: bool


class Seconds(_Part):
    """Mean times of a seed."""

    shared: float
    arms: dict[str, float]


class Setting(_Part):
    """What the record was made with."""

    digest: str
    overrides: list[str]


class Confirmed(_Part):
    """A later run that gave the record's numbers again."""

    date: str
    code: dict[str, Any]
    seeds: list[int]

    @property
    def in_words(self) -> str:
        """Return when, with which code and at which seed, in a few words."""
        seeds = ", ".join(map(str, self.seeds))
        return f"{self.date} with version {str(self.code.get('version', '-'))[:12]} at seed {seeds}"


class TunedArm(_Part):
    """What an arm reached with each value of the grid."""

    chosen: float | int | str
    means: list[float]
    values: list[Annotated[list[float], Field(min_length=1)]]
    """For each value of the grid, what was measured at each seed."""


class TunedRecord(_Part):
    """The record of a tuning."""

    slug: str
    tuning: dict[str, Any]
    """The words of `hallmark.tuning` that it was made by."""
    arms: dict[str, TunedArm]
    operators: dict[str, str]
    setting: Setting
    confirmed: Confirmed | None = None


class Record(_Part):
    """One record of the protocol."""

    slug: str
    claim: str
    verdicts: dict[str, Verdict]
    invalid: str | None
    seeds: list[int]
    looks: list[int]
    claims: dict[str, RecordedClaim]
    preconditions: dict[str, RecordedCondition]
    active: dict[str, RecordedCondition]
    secondary: dict[str, RecordedEffect]
    also: dict[str, RecordedValue]
    budget: RecordedValue | None
    seconds: Seconds
    run_seconds: float
    cpu_seconds: float | None = None
    """Of all stages behind it; None in records from before it was counted."""
    date: str
    code: dict[str, Any]
    operators: dict[str, str]
    setting: Setting
    confirmed: Confirmed | None = None

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.verdicts.keys() != self.claims.keys():
            raise ValueError("expected a verdict for each claim")
        if not self.looks or self.looks != sorted({look for look in self.looks if look > 0}):
            raise ValueError("looks: expected ascending numbers of seeds")
        for entry in (*self.claims.values(), *self.secondary.values()):
            if len(entry.effects) != len(self.seeds):
                raise ValueError("expected an effect for each seed")
        return self

    @property
    def arms(self) -> list[str]:
        """Return the arms in their order."""
        return list(self.seconds.arms)

    @property
    def given(self) -> list[str]:
        """Return the overrides that it was made with, but the last one, which gave it the seeds of its look."""
        kept = list(self.setting.overrides)
        last = max((place for place, text in enumerate(kept) if text.startswith("matrix.seed=")), default=None)
        return kept if last is None else [*kept[:last], *kept[last + 1 :]]


def read_record(found: Mapping[str, Any]) -> Record:
    """Return a record of today's format; raise InputError for one that is malformed."""
    try:
        return Record.model_validate(found)
    except ValidationError as error:
        raise InputError(f"its record is malformed: {schema_problems(error, most=3)}") from None


def effect_text(found: Ends) -> str:
    """Return a mean with its interval: "+0.0123 [+0.004, +0.021]"."""
    if found.low is None or found.high is None:
        return f"{found.value:+.3g}"
    return f"{found.value:+.3g} [{found.low:+.3g}, {found.high:+.3g}]"
