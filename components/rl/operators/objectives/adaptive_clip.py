"""DCPO's surrogate: the less likely a token was, the further its ratio may move."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from components.rl.batch.token_loss import TokenLoss
from components.rl.configs import ObjectiveConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.modeling.packing.logprobs import TokenScores
    from components.rl.batch.batch import Batch


class AdaptiveClipConfig(ObjectiveConfig):
    """How far the ratio may move, measured as |r - 1| times the new probability."""

    clip_low: float = Field(default=0.16, ge=0, le=1)
    """Bound downwards."""
    clip_high: float = Field(default=0.2, ge=0)
    """Bound upwards."""
    ratio_max: float = Field(default=10.0, gt=1)
    """Upper bound of every ratio, whatever the sign of its advantage."""


def adaptive_clip(scores: TokenScores, batch: Batch, context: SlotContext, *, config: AdaptiveClipConfig) -> TokenLoss:
    """Return per token -min(r A, clip(r, lower(q), upper(q)) A), q the token's probability under the old policy.

    Metric `clip_fraction`: tokens whose gradient is removed.
    Source: Yang et al. 2025, DCPO (arXiv:2509.02333), dynamic adaptive clipping.
    """
    from components.rl.batch.surrogate import clipped_loss, token_ratio

    ratio_n = token_ratio(scores, batch)
    capped_n = ratio_n.clamp(max=config.ratio_max)
    lower_n, upper_n = adaptive_bounds(batch.old_logprobs, config)
    loss_n, silenced_n = clipped_loss(capped_n, batch.advantages, lower_n, upper_n)
    silenced_n = silenced_n.maximum((ratio_n.detach() > config.ratio_max).float() * (batch.advantages != 0))
    return TokenLoss(loss_n, {"clip_fraction": silenced_n})


def adaptive_bounds(old_logprobs: Tensor, config: AdaptiveClipConfig) -> tuple[Tensor, Tensor]:
    """Return lower and upper bounds of the ratio: the roots of |r - 1| r q = clip, with q = exp(old_logprobs).

    lower = 1/2 + 1/2 sqrt(max(0, 1 - 4 clip_low / q)), upper = 1/2 + 1/2 sqrt(1 + 4 clip_high / q), at most ratio_max.
    """
    odds = (-old_logprobs).exp()  # 1 / q
    lower = 0.5 + 0.5 * (1 - 4 * config.clip_low * odds).clamp(min=0).sqrt()
    upper = 0.5 + 0.5 * (1 + 4 * config.clip_high * odds).sqrt()
    return lower, upper.clamp(max=config.ratio_max)
