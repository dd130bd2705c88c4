"""GSPO's surrogate: one importance ratio per response, clipped as a whole. LUSPO differs only in the denominator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from components.rl.batch.token_loss import TokenLoss
from components.rl.configs import Denominator, ObjectiveConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from components.modeling.packing.logprobs import TokenScores
    from components.rl.batch.batch import Batch


class SequenceClipConfig(ObjectiveConfig):
    """The trust region of response ratios: far narrower than for tokens, whose noise the mean averages out."""

    clip_low: float = Field(default=3e-4, ge=0, le=1)
    """The ratio is clipped below at 1 - clip_low."""
    clip_high: float = Field(default=4e-4, ge=0)
    """The ratio is clipped above at 1 + clip_high."""
    denominator: Denominator = "responses"
    """responses: the mean over responses, GSPO. constant 1: each response times its length, LUSPO; tokens: the same
    over the mean length. groups: a response weighs by its share of its group's tokens."""


def sequence_clip(scores: TokenScores, batch: Batch, context: SlotContext, *, config: SequenceClipConfig) -> TokenLoss:
    """Return on every token of a response -min(s A, clip(s, 1 - clip_low, 1 + clip_high) A).

    s = (pi(o) / pi_old(o))^(1/|o|), so each token has the gradient s A / |o| of its log-probability: under a mean over
    responses a token of a long response counts less than one of a short response. Weighted by |o| it does not.
    A is the mean of the advantages of the response's tokens.
    Metrics: `clip_fraction` (tokens whose gradient the clip removes), `sequence_ratio_gap` (|s - 1|).
    Source: Zheng et al. 2025, GSPO (arXiv:2507.18071), eq. 5 to 7; Liu et al. 2026, LUSPO (arXiv:2602.05261).
    """
    from components.rl.batch.surrogate import clipped_loss, sequence_ratio

    ratio_s = sequence_ratio(scores, batch)
    advantage_s = batch.response_mean(batch.advantages)
    loss_s, silenced_s = clipped_loss(ratio_s, advantage_s, 1 - config.clip_low, 1 + config.clip_high)
    metrics_s = {"clip_fraction": silenced_s, "sequence_ratio_gap": (ratio_s.detach() - 1).abs()}
    return TokenLoss(batch.to_tokens(loss_s), {name: batch.to_tokens(value) for name, value in metrics_s.items()})
