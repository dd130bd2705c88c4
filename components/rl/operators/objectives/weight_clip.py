"""CISPO: the importance weight is clipped, not the update, so that every token keeps its gradient."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from components.rl.batch.token_loss import TokenLoss
from components.rl.configs import ObjectiveConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from components.modeling.packing.logprobs import TokenScores
    from components.rl.batch.batch import Batch


class WeightClipConfig(ObjectiveConfig):
    """Bounds of the importance weight."""

    weight_min: float = Field(default=0.0, ge=0, le=1)
    """Lowest weight; 0 for no lower bound."""
    weight_max: float = Field(default=5.0, ge=1)
    """Highest weight."""


def weight_clip(scores: TokenScores, batch: Batch, context: SlotContext, *, config: WeightClipConfig) -> TokenLoss:
    """Return per token -sg[clip(r, weight_min, weight_max)] A log pi; sg stops the gradient.

    Metric `weight_clip_fraction`: tokens whose weight is clipped.
    Source: MiniMax 2025, MiniMax-M1 (arXiv:2506.13585), eq. 4 and 5 (1 - eps_low and 1 + eps_high are the bounds here).
    """
    from components.rl.batch.surrogate import token_ratio

    ratio_n = token_ratio(scores, batch).detach()
    weight_n = ratio_n.clamp(config.weight_min, config.weight_max)
    return TokenLoss(
        -weight_n * batch.advantages * scores.logprobs,
        {"weight_clip_fraction": (weight_n != ratio_n).float()},
    )
