"""The words of a recipe's section `hallmark`."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from pipelines.recipe.grammar import MAX_SUMMARY_LENGTH

METHOD, BASELINE = "method", "baseline"
DEFAULT_EFFECT = f"{METHOD} - {BASELINE}"

Direction = Literal["higher", "lower", "same", "not_lower", "not_higher"]
Text = Field(min_length=1, max_length=MAX_SUMMARY_LENGTH)


class _Words(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SecondaryWords(_Words):
    """One effect that is shown and decides nothing."""

    value: str = Field(min_length=1)
    """Expression over stage.metric, for one arm and seed."""
    effect: str = DEFAULT_EFFECT
    """Expression over arms, for one seed."""


class PrimaryWords(SecondaryWords):
    """The one effect by which a claim is judged."""

    name: str = Field(min_length=1, max_length=40, pattern=r"^[a-z][a-z0-9_]*$")
    """Short name of the quantity, such as pass_at_1."""
    direction: Direction
    """Claimed direction of the effect."""
    floor: float = Field(gt=0, allow_inf_nan=False)
    """Least effect that counts: beyond it the claim is seen or opposite, within it there is no effect."""
    floor_from: str = Text
    """One line: where the floor comes from, such as twice the noise of evaluation or a share of the paper's effect."""


class ConditionWords(SecondaryWords):
    """What the mean over seeds of a quantity must be for the claim to be tested at all."""

    effect: str
    """Expression over arms, for one seed: usually one arm."""
    at_least: float | None = Field(default=None, allow_inf_nan=False)
    at_most: float | None = Field(default=None, allow_inf_nan=False)

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        if self.at_least is None and self.at_most is None:
            raise ValueError("expected at_least, at_most or both")
        return self

    def holds(self, value: float) -> bool:
        """Return whether a mean meets the condition; NaN does not."""
        low = self.at_least is None or value >= self.at_least
        return low and (self.at_most is None or value <= self.at_most) and value == value


class PreconditionWords(ConditionWords):
    """A condition on the testbed."""

    effect: str = BASELINE


class ActiveWords(ConditionWords):
    """A sign that the method's operator did something."""

    effect: str = METHOD


class TuningWords(_Words):
    """How a setting is chosen for every arm alike, on seeds that judge nothing."""

    of: str = Field(pattern=r"^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*$")
    """The setting, below each arm of the matrix: optimizer.peak_learning_rate."""
    grid: list[float | int | str] = Field(min_length=2, max_length=12)
    """Values that every arm tries."""
    seeds: list[int] = Field(min_length=1, max_length=20)
    """Seeds that no look uses."""
    by: str = Field(min_length=1)
    """Expression over stage.metric, for one arm and seed; its mean over the seeds chooses."""
    highest: bool = True
    """Whether the highest mean is chosen, or the lowest; of equal ones the first of the grid."""

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        if len(set(self.grid)) < len(self.grid) or len(set(self.seeds)) < len(self.seeds):
            raise ValueError("expected a grid and seeds without repetition")
        return self


class HallmarkWords(_Words):
    """The section `hallmark` of a recipe."""

    claim: str = Field(default="", max_length=MAX_SUMMARY_LENGTH)
    """One line: the expected observation; a testbed, which only has preconditions, has none."""
    catalogue: int | None = None
    """Id of the method in the catalogue of methods."""
    mechanism: PrimaryWords | None = None
    """What the operator is to change, such as entropy or length."""
    outcome: PrimaryWords | None = None
    """What this is to gain, such as accuracy."""
    preconditions: dict[str, PreconditionWords] = Field(default_factory=dict)
    """What the testbed must show for the claim to be tested, by default of the baseline."""
    active: dict[str, ActiveWords] = Field(default_factory=dict)
    """Signs that the operator is at work, by default of the method."""
    budget: str | None = None
    """Expression over stage.metric that counts what an arm may spend, such as rl.num_tokens; null if the claim is
    about cost."""
    tuning: TuningWords | None = None
    """A setting that `reproduce --tune` chooses for every arm, by the same rule, before any seed that judges."""
    secondary: dict[str, SecondaryWords] = Field(default_factory=dict)
    """Effects with intervals that decide nothing."""
    also: dict[str, str] = Field(default_factory=dict)
    """Values shown for every arm."""
    looks: list[int] = Field(default=[5, 8, 12, 20], min_length=1)
    """Seeds at which the claim is judged; the comparison ends at the first look that decides all of it."""

    @model_validator(mode="after")
    def _judged(self) -> Self:
        judged = self.mechanism is not None or self.outcome is not None
        if judged != bool(self.claim) or not (judged or self.preconditions):
            raise ValueError("expected a claim with mechanism, outcome or both, by which it is judged")
        if self.looks != sorted(set(self.looks)) or not 5 <= self.looks[0] <= self.looks[-1] <= 20:
            raise ValueError("looks: expected ascending numbers of seeds from 5 to 20")
        return self
