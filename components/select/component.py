"""Declaration of the select stage."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from components.contract.artifacts import ArtifactType
from components.contract.component import Component, Params, Port
from components.measure.measure_params import MeasureParams
from components.modeling.sampling_memory import choosing_memory
from components.tasks.modules import verifier_modules

METRIC = r"^(pass|maj)_at_[1-9][0-9]*$"


class Objective(Params):
    """What the best model has most of."""

    metric: str = Field(default="pass_at_1", pattern=METRIC)
    """pass_at_<k> or maj_at_<k>."""
    domain: str | None = None
    """The one domain that counts; unset: all domains by their weights."""
    weights: dict[str, float] = Field(default_factory=dict)
    """Weight of each domain in the mean; domains left out do not count. Empty: all domains count the same."""

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
    """What a model must keep to be chosen at all."""

    metric: str = Field(default="pass_at_1", pattern=METRIC)
    """pass_at_<k> or maj_at_<k>."""
    domain: str
    """The domain that it is measured on."""
    max_drop: float | None = Field(default=None, ge=0, le=1)
    """Most that may be lost against the baseline; 0.05 is five points."""
    min_value: float | None = Field(default=None, ge=0, le=1)
    """Least value."""
    confident: bool = False
    """Whether the worse end of the interval must hold the limit, not only the value."""

    @model_validator(mode="after")
    def _one_limit(self) -> Self:
        if (self.max_drop is None) == (self.min_value is None):
            raise ValueError("give exactly one of max_drop and min_value")
        return self


class SelectParams(MeasureParams):
    """Parameters of checkpoint selection."""

    objective: Objective = Objective()
    """What is maximised, on the development set."""
    constraints: tuple[Constraint, ...] = ()
    """What a candidate must hold to be eligible."""
    tie_rule: Literal["earliest", "highest_entropy", "best"] = "earliest"
    """Which of the candidates that the paired interval cannot tell from the best is chosen: the earliest one, the
    one with the highest entropy, or the one with the highest value all the same."""
    if_none: Literal["fail", "best_effort"] = "fail"
    """When no candidate holds all constraints: fail, or take the one that violates them least."""
    checkpoint_every: int = Field(default=4, ge=0)
    """Candidates between partial checkpoints, from which a killed stage resumes; 0 for none."""


COMPONENT = Component(
    name="select",
    summary="Choose one of many models on a development set, under constraints; losers stay on record",
    inputs={
        "checkpoints": Port(
            type=ArtifactType.CHECKPOINTS, doc="Candidates: every model of these", many=True, optional=True
        ),
        "models": Port(type=ArtifactType.MODEL, doc="Candidates beside the checkpoints", many=True, optional=True),
        "dataset": Port(type=ArtifactType.DATASET, doc="Development prompts, not the final test set", many=True),
        "baseline": Port(
            type=ArtifactType.MODEL, doc="What constraints compare with, measured on the same prompts", optional=True
        ),
        "baseline_metrics": Port(
            type=ArtifactType.METRICS,
            doc="The same from an earlier evaluation on the same prompts (pass@k constraints only)",
            optional=True,
        ),
    },
    outputs={
        "model": Port(type=ArtifactType.MODEL, doc="The chosen model"),
        "metrics": Port(type=ArtifactType.METRICS, doc="The chosen model's metrics and pass-rate ledger"),
        "report": Port(type=ArtifactType.REPORT, doc="selection.json: every candidate with numbers and reasons"),
    },
    params=SelectParams,
    run="components.select.run:run",
    backends=frozenset({"sampler"}),
    memory=choosing_memory,
    preloads=("torch", "transformers"),
    metrics={
        "objective": "The chosen model's objective on the development set (optimistic: it is the best of several)",
        "pass_at_1_<domain>": "The chosen model's pass@1 on one domain",
        "num_candidates": "Distinct models that were measured",
        "num_rejected": "Candidates that break a constraint",
        "num_tied": "Eligible candidates that cannot be told from the best",
        "position": "Place of the chosen one in the list of candidates, from 1",
    },
    sources=lambda _: verifier_modules(),
)
