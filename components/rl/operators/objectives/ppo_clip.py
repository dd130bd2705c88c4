"""The clipped surrogate with separate lower and upper bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from components.rl.batch.token_loss import TokenLoss
from components.rl.configs import ObjectiveConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from components.modeling.packing.logprobs import TokenScores
    from components.rl.batch.batch import Batch


class PPOClipConfig(ObjectiveConfig):
    """The trust region of the importance ratio."""

    clip_low: float = Field(default=0.2, ge=0, le=1)
    """The ratio is clipped below at 1 - clip_low."""
    clip_high: float = Field(default=0.2, ge=0)
    """The ratio is clipped above at 1 + clip_high."""


def ppo_clip(scores: TokenScores, batch: Batch, context: SlotContext, *, config: PPOClipConfig) -> TokenLoss:
    """Return per token -min(r A, clip(r, 1 - clip_low, 1 + clip_high) A) with r = exp(logp - old logp).

    Source: Schulman et al. 2017, PPO (arXiv:1707.06347), eq. 7; two bounds from Yu et al. 2025, DAPO
    (arXiv:2503.14476), eq. 8. Metric `clip_fraction`: tokens whose gradient the clip removes.
    """
    from components.rl.batch.surrogate import clipped_loss, token_ratio

    ratio_n = token_ratio(scores, batch)
    loss_n, silenced_n = clipped_loss(ratio_n, batch.advantages, 1 - config.clip_low, 1 + config.clip_high)
    return TokenLoss(loss_n, {"clip_fraction": silenced_n})
