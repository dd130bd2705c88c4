"""Parameters of the select stage."""

from __future__ import annotations

import re
from typing import Literal, Self

from pydantic import Field, model_validator

from components.contract.errors import InputError, did_you_mean
from components.contract.params import Params
from components.measure.chosen_params import ChosenParams, prompt_metrics, readable
from components.measure.harness.configs import MeasureConfig

OWN_METRIC = re.compile(r"(pass|maj)_at_[1-9][0-9]*")
BUDGET = re.compile(r"_at_[1-9][0-9]*$")
METRIC = r"^[A-Za-z_][A-Za-z0-9_]*$"


class Objective(Params):
    """The quantity to maximise."""

    metric: str = Field(default="pass_at_1", pattern=METRIC)
    """pass_at_<k>, maj_at_<k>, or what an operator of `metrics` or `strategies` gives."""
    minimise: bool = False
    """Whether the smallest value is wanted, such as of an error."""
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
    """pass_at_<k>, maj_at_<k>, or what an operator of `metrics` or `strategies` gives."""
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


class SelectParams(ChosenParams):
    """Parameters of checkpoint selection."""

    objective: Objective = Objective()
    """What to maximise, on the development set."""
    constraints: tuple[Constraint, ...] = ()
    """Conditions for a candidate to be eligible."""
    rule: Literal["best", "elbow"] = "best"
    """best: the highest objective, ties by `tie_rule`. elbow: the eligible candidate that has gained most over the
    baseline for its divergence from it, which needs input `baseline`."""
    tie_rule: Literal["earliest", "highest_entropy", "best"] = "earliest"
    """Which of the candidates tied with the best by the paired interval is chosen: the earliest, the one with the
    highest entropy, or the one with the highest value."""
    if_none: Literal["fail", "best_effort"] = "fail"
    """If no candidate satisfies all constraints: fail, or choose the one that violates them least."""
    checkpoint_every: int = Field(default=4, ge=0)
    """Candidates between partial checkpoints, from which a killed stage resumes; 0 for none."""

    @model_validator(mode="after")
    def _measures_what_it_compares(self) -> Self:
        for bound in readable(self.chosen):
            config = bound.config
            assert isinstance(config, MeasureConfig)
            if config.needs or config.asked or config.reads_model:
                raise InputError(
                    f"{bound.slot} {bound.shown}: select compares models by their samples alone, and this reads more; "
                    "measure the chosen one with evaluate"
                )
        if self.rule == "elbow" and (self.temperature, self.top_p) != (1.0, 1.0):
            raise InputError("rule elbow: the divergence is that of responses at temperature 1 and top_p 1")
        known = list(prompt_metrics(self))
        constraints = [("constraints", constraint.metric) for constraint in self.constraints]
        for owner, metric in [("objective", self.objective.metric), *constraints]:
            if not (OWN_METRIC.fullmatch(metric) or metric in known or BUDGET.sub("_at_", metric) in known):
                named = ["pass_at_<k>", "maj_at_<k>", *(f"{one}<k>" if one.endswith("_at_") else one for one in known)]
                raise InputError(f"{owner}: unknown metric {metric!r}{did_you_mean(metric, named)}")
        return self


def budget(metric: str) -> int:
    """Return the k of NAME_at_k; 1 for a metric without."""
    found = BUDGET.search(metric)
    return int(found[0].removeprefix("_at_")) if found else 1
