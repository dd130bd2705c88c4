"""Weights on rare outcomes: a success on a hard prompt, a failure on an easy one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from components.rl.configs import AdvantageConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class RareEventsConfig(AdvantageConfig):
    """Which prompts are hard and easy, and the weights."""

    low: float = Field(default=0.25, gt=0, lt=1)
    """Highest first pass rate of a hard prompt."""
    high: float = Field(default=0.75, gt=0, lt=1)
    """Lowest first pass rate of an easy prompt."""
    success_weight: float = Field(default=1.5, ge=0)
    """lambda+: factor of the advantage of a right response to a hard prompt."""
    failure_weight: float = Field(default=1.5, ge=0)
    """lambda-: factor of the advantage of a wrong response to an easy prompt."""


def rare_events(batch: Batch, context: SlotContext, *, config: RareEventsConfig) -> Tensor:
    """Return [N]: the advantages so far, multiplied by the weight at rare outcomes.

    Hard and easy refer to pass rates before training. Source: Sheng et al. 2026, Beyond Variance
    (arXiv:2602.03452), Weighted GRPO; the form is reconstructed: standardising a group would cancel weights on
    two-valued rewards, so they apply after it.
    """
    import torch

    from components.rl.batch.batch import RIGHT, WRONG
    from components.rl.curricula.first_rates import first_rates

    rates = first_rates(context.ledger, [prompt.item.id for prompt in batch.prompts])
    rate_s = torch.tensor([torch.nan if rate is None else rate for rate in rates])[batch.group]
    rare_success_s = (rate_s <= config.low) & (batch.outcomes == RIGHT)
    rare_failure_s = (rate_s >= config.high) & (batch.outcomes == WRONG)
    weight_s = torch.ones(batch.num_responses)
    weight_s = weight_s.masked_fill(rare_success_s, config.success_weight)
    weight_s = weight_s.masked_fill(rare_failure_s, config.failure_weight)
    rare_s = rare_success_s | rare_failure_s
    if bool(rare_s.any()):
        size_s = batch.response_mean(batch.advantages.abs()) * weight_s
        context.metrics["rare_abs_advantage"] = float(batch.of_traces(size_s)[batch.of_traces(rare_s)].mean())
    return batch.advantages * batch.to_tokens(weight_s)
