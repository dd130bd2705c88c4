"""Online policy mirror descent: the policy gradient, held to the policy of the step by a squared log-ratio."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from components.rl.batch.token_loss import TokenLoss
from components.rl.configs import Denominator, ObjectiveConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from components.modeling.packing.logprobs import TokenScores
    from components.rl.batch.batch import Batch


class MirrorDescentConfig(ObjectiveConfig):
    """How strongly an iteration is held to its start."""

    silent_at_zero: ClassVar[bool] = False
    tau: float = Field(default=0.1, ge=0)
    """Price of a response's squared log-ratio; the paper names no value."""
    denominator: Denominator = "responses"
    """responses: the mean over responses, as in the paper."""


def mirror_descent(
    scores: TokenScores, batch: Batch, context: SlotContext, *, config: MirrorDescentConfig
) -> TokenLoss:
    """Return on every token of a response -A log pi(y) + tau / 2 (log pi(y) - log pi_old(y))^2, sums over its tokens.

    pi_old is the policy that the step began with, so the second term acts from a step's second update on: give
    `minibatches` or `epochs`. A is the mean of the response's advantages; with advantage group_mean this is the paper's
    r less the mean of its group. Metric: `mirror_distance`, the squared log-ratio.

    Source: Kimi k1.5 (arXiv:2501.12599), section 2.3.2, eq. 3.
    """
    advantage_s = batch.response_mean(batch.advantages)
    logratio_s = batch.response_sum(scores.logprobs - batch.old_logprobs)
    loss_s = -advantage_s * batch.response_sum(scores.logprobs) + config.tau / 2 * logratio_s.square()
    return TokenLoss(batch.to_tokens(loss_s), {"mirror_distance": batch.to_tokens(logratio_s.detach().square())})
