"""Parameters of the select stage."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from components.contract.params import Params
from components.measure.measure_params import MeasureParams

METRIC = r"^(pass|maj)_at_[1-9][0-9]*$"


class Objective(Params):
    """The quantity to maximise."""

    metric: str = Field(default="pass_at_1", pattern=METRIC)
    """pass_at_<k> or maj_at_<k>."""
    domain: str | None = None
    """The only domain that counts; unset: all domains by their weights."""
    weights: dict[str, float] = Field(default_factory=dict)
    """Weight of each domain in the mean; domains left out do not count. Empty: equal weights."""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.domain is not None and self.weights:
            raise ValueError("give domain or weights, not both")
        if self.weights and (min(self.weights.values()) < 0 or not sum(self.weights.values())):
            raise ValueError("weights must not be negative, and one must be above 0")
        return self

    def domain_weights(self, domains: list[str]) -> dict[str, float]:
        """Return the weight of each domain that counts."""
        if self.domain is not None:
            return {self.domain: 1.0}
        return {name: weight for name, weight in self.weights.items() if weight} or dict.fromkeys(domains, 1.0)


class Constraint(Params):
    """A condition for a model to be eligible."""

    metric: str = Field(default="pass_at_1", pattern=METRIC)
    """pass_at_<k> or maj_at_<k>."""
    domain: str
    """The domain it is measured on."""
    max_drop: float | None = Field(default=None, ge=0, le=1)
    """Maximum drop from the baseline; 0.05 is five points."""
    min_value: float | None = Field(default=None, ge=0, le=1)
    """Minimum value."""
    confident: bool = False
    """Whether the worse end of the interval must satisfy the limit, not only the value."""

    @model_validator(mode="after")
    def _one_limit(self) -> Self:
        if (self.max_drop is None) == (self.min_value is None):
            raise ValueError("give exactly one of max_drop and min_value")
        return self


class SelectParams(MeasureParams):
    """Parameters of checkpoint selection."""

    objective: Objective = Objective()
    """What to maximise, on the development set."""
    constraints: tuple[Constraint, ...] = ()
    """Conditions for a candidate to be eligible."""
    tie_rule: Literal["earliest", "highest_entropy", "best"] = "earliest"
    """Which of the candidates tied with the best by the paired interval is chosen: the earliest, the one with the
    highest entropy, or the one with the highest value."""
    if_none: Literal["fail", "best_effort"] = "fail"
    """If no candidate satisfies all constraints: fail, or choose the one that violates them least."""
    checkpoint_every: int = Field(default=4, ge=0)
    """Candidates between partial checkpoints, from which a killed stage resumes; 0 for none."""
