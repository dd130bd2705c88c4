"""Parameters of the evaluate stage."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from components.contract.operators import OperatorSpec
from components.measure.chosen_params import ChosenParams
from components.measure.measure_params import PositiveInt
from components.measure.slots import DIAGNOSTIC
from components.modeling.text.overlong import Overlong


class EvaluateParams(ChosenParams):
    """Parameters of an evaluation."""

    exact: bool = False
    """Draw nothing, but score every right response under the policy: pass@k is 1 - (1 - p)^k, without the noise of
    samples. Rows must list theirs (`list_right` of source `rules`); `num_samples` is the largest k."""
    overlong: Overlong = "drop"
    """What becomes of a prompt that does not fit the model's positions with a response of max_new_tokens: left out and
    counted, cut on the left, or refused with its name."""
    ks: tuple[PositiveInt, ...] | None = None
    """Values of k for pass@k and maj@k; unset: all from 1 to the samples drawn."""
    browse_prompts: int = Field(default=16, ge=0)
    """Prompts of each domain whose responses are kept in samples.jsonl for people to read."""
    browse_responses: int = Field(default=4, ge=1)
    """Responses kept for each of these prompts."""
    checkpoint_every: int = Field(default=8, ge=0)
    """Blocks of prompts between partial checkpoints, from which a killed stage resumes; 0 for none."""

    diagnostics: Annotated[tuple[OperatorSpec, ...], DIAGNOSTIC] = ()
    """Whole views of the model, with tables and charts."""

    @property
    def chosen(self) -> tuple[OperatorSpec, ...]:
        """Return all operators that measure."""
        return (*self.metrics, *self.diagnostics, *self.strategies)

    @model_validator(mode="after")
    def _exact_is_whole(self) -> Self:
        if self.exact and (self.temperature == 0 or self.top_p < 1):
            raise ValueError(
                "exact: probabilities are those of the whole distribution: set top_p 1, temperature above 0"
            )
        if self.exact and self.chosen:
            raise ValueError(
                f"exact: no samples are drawn, which operator {self.chosen[0].name} measures: leave one out"
            )
        return self

    @model_validator(mode="after")
    def _exact_cuts_nothing(self) -> Self:
        if self.exact and self.overlong == "truncate_left":
            raise ValueError("exact: right responses are scored behind whole prompts: set overlong: drop or refuse")
        return self

    @model_validator(mode="after")
    def _ks_are_drawn(self) -> Self:
        drawn = self.num_samples if isinstance(self.num_samples, int) else max(self.num_samples.values(), default=1)
        if self.ks and max(self.ks) > drawn:
            raise ValueError(f"ks: {max(self.ks)} is more than the samples of a prompt, num_samples: {drawn}")
        return self

    def wanted_ks(self, domain: str) -> list[int]:
        """Return the values of k to measure on `domain`: those its samples allow, including 1 and the largest."""
        drawn = self.sampling(domain).num_samples
        return sorted({1, drawn, *(k for k in self.ks or range(1, drawn + 1) if k <= drawn)})
