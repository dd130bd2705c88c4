"""The plain policy gradient: no ratio, no clip."""

from __future__ import annotations

from typing import TYPE_CHECKING

from components.rl.batch.token_loss import TokenLoss
from components.rl.configs import ObjectiveConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from components.modeling.packing.logprobs import TokenScores
    from components.rl.batch.batch import Batch


class PolicyGradientConfig(ObjectiveConfig):
    """Only the denominator."""


def policy_gradient(
    scores: TokenScores, batch: Batch, context: SlotContext, *, config: PolicyGradientConfig
) -> TokenLoss:
    """Return per token -A logp. Exact only for the policy that sampled: one update per batch.

    Source: Williams 1992, REINFORCE. Denominator constant with constant 1 gives the sum over each response.
    """
    return TokenLoss(-batch.advantages * scores.logprobs)
