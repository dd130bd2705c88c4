"""OREO: every token of an offline response is made consistent with the value before it and the final reward."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from components.rl.batch.token_loss import TokenLoss
from components.rl.configs import ObjectiveConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from components.modeling.packing.logprobs import TokenScores
    from components.rl.batch.batch import Batch


class OreoConfig(ObjectiveConfig):
    """The form of the consistency loss."""

    reads: ClassVar[frozenset[str]] = frozenset({"reference_logprobs", "values"})
    silent_at_zero: ClassVar[bool] = False
    beta: float = Field(default=0.03, gt=0)
    """Weight of the divergence from the reference in the return."""
    granularity: Literal["token", "response"] = "token"
    """token: one residual per token. response: one per response, at its first token, spread over all."""


def oreo(scores: TokenScores, batch: Batch, context: SlotContext, *, config: OreoConfig) -> TokenLoss:
    """Return per token (V(s_t) - R + beta c_t + beta sum_(i > t) c_i)^2, c = logp - reference logp.

    Only c_t carries a gradient at t; V is the critic's, before its update. With granularity response the residual is
    V(s_0) - R + beta sum_i c_i, its gradient through every c_i. Metric `oreo_residual`: the residual's size.
    Source: Wang et al. 2024, OREO (arXiv:2412.16145), the policy loss and its response-level variant.
    """
    from components.rl.batch.returns import suffix_sum

    cost_n = scores.logprobs - batch.reference_logprobs
    reward_n = batch.to_tokens(batch.rewards)
    if config.granularity == "response":
        first_s = batch.response_sum(batch.values * (batch.positions == 0))
        residual_n = batch.to_tokens(first_s - batch.rewards + config.beta * batch.response_sum(cost_n))
    else:
        later_n = suffix_sum(batch, cost_n.detach()) - cost_n.detach()
        residual_n = batch.values - reward_n + config.beta * (cost_n + later_n)
    return TokenLoss(residual_n.square(), {"oreo_residual": residual_n.detach().abs()})
