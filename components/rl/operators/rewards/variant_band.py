"""SvS's reward: outcomes for solutions, and for a problem that the policy wrote whether it is neither easy nor hard."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Self

from pydantic import Field, model_validator

from components.contract.errors import InputError
from components.rl.configs import RewardConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class VariantBandConfig(RewardConfig):
    """The band of pass rates, and values of outcomes."""

    reads: ClassVar[frozenset[str]] = frozenset({"outcomes", "writing_s", "variant_rate_s"})
    low: float = Field(default=0.125, ge=0, le=1)
    """Lowest pass rate of a good problem: below it is too hard, or has another answer."""
    high: float = Field(default=0.625, ge=0, le=1)
    """Highest pass rate of a good problem: above it is too easy, or gives its answer away."""
    right: float = 1.0
    """Reward of a right solution, and of a problem in the band."""
    wrong: float = 0.0
    """Reward of a wrong solution, and of a problem outside the band."""

    @model_validator(mode="after")
    def _is_a_band(self) -> Self:
        if self.low > self.high:
            raise InputError(f"variant_band: low {self.low} is above high {self.high}")
        return self


def variant_band(batch: Batch, context: SlotContext, *, config: VariantBandConfig) -> Tensor:
    """Return [S]: `right` or `wrong`, by the outcome of a solution and by the pass rate of a written problem.

    NaN for a problem of which no solution could be verified. Metric `variants_accepted`: the share of the other written
    problems that is in the band. Rows are told apart by the marks of rollout self_play_variants.
    Source: Liang et al. 2025 (SvS): the writer is rewarded if 0.125 <= accuracy <= 0.625.
    """
    from components.rl.batch.batch import RIGHT

    writing, rate = batch.extras["writing_s"] > 0, batch.extras["variant_rate_s"]
    in_band = (rate >= config.low) & (rate <= config.high)
    unknown = writing & rate.isnan()
    if bool((told := writing & ~unknown).any()):
        context.metrics["variants_accepted"] = float(in_band[told].double().mean())
    good = in_band.where(writing, batch.outcomes == RIGHT)
    return (config.wrong + (config.right - config.wrong) * good.float()).masked_fill(unknown, float("nan"))
