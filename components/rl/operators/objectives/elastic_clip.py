"""ETR's surrogate: the clearer a response's signal, the wider its trust region."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from components.rl.batch.token_loss import TokenLoss
from components.rl.configs import ObjectiveConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.modeling.packing.logprobs import TokenScores
    from components.rl.batch.batch import Batch


class ElasticClipConfig(ObjectiveConfig):
    """The base band and how it stretches; with both factors 0 it is PPO's clip."""

    reads: ClassVar[frozenset[str]] = frozenset({"pass_rate_s"})
    clip_low: float = Field(default=0.2, ge=0, le=1)
    """Base band downwards."""
    clip_high: float = Field(default=0.2, ge=0)
    """Base band upwards."""
    advantage_factor: float = Field(default=0.5, ge=0)
    """k1: how much wider the band is for |A| at `advantage_max` and beyond than for |A| = 0."""
    variance_factor: float = Field(default=0.5, ge=0)
    """k2: how much wider the band is for a group that is half right than for one all right or all wrong."""
    advantage_max: float = Field(default=3.0, gt=0)
    """|A| from which the band stretches no further."""


def elastic_clip(scores: TokenScores, batch: Batch, context: SlotContext, *, config: ElasticClipConfig) -> TokenLoss:
    """Return per token -min(r A, clip(r, 1 - f clip_low, 1 + f clip_high) A).

    f = (1 + k1 min(|A|, a_max) / a_max) (1 + k2 4 p (1 - p)), p the pass rate of the response's group, marked by
    annotate operator `pass_rates`. The lower bound stays at or above 0.
    Metrics: `clip_fraction`, and for rare right responses (right ones of groups with p <= 1/4) `rare_right_share` and
    `rare_right_clipped`, both as shares of all tokens, so that their ratio is the clip fraction among them.
    Source: Zhang et al. 2026, ETR (arXiv:2601.03723). Reconstructed: the form of f and all its constants.
    """
    from components.rl.batch.surrogate import clipped_loss, token_ratio

    stretch_n = band_stretch(batch, config)
    low_n = (1 - config.clip_low * stretch_n).clamp(min=0)
    loss_n, silenced_n = clipped_loss(
        token_ratio(scores, batch), batch.advantages, low_n, 1 + config.clip_high * stretch_n
    )
    rare_n = (batch.to_tokens(batch.extras["pass_rate_s"]) <= 0.25) & (batch.advantages > 0)
    metrics = {"rare_right_share": rare_n.float(), "rare_right_clipped": silenced_n * rare_n}
    return TokenLoss(loss_n, {"clip_fraction": silenced_n} | metrics)


def band_stretch(batch: Batch, config: ElasticClipConfig) -> Tensor:
    """Return [N]: f, the factor of both sides of the band; at least 1."""
    micro_n = 1 + config.advantage_factor * (batch.advantages.abs() / config.advantage_max).clamp(max=1)
    pass_rate_s = batch.extras["pass_rate_s"]
    macro_s = 1 + config.variance_factor * 4 * pass_rate_s * (1 - pass_rate_s)
    return micro_n * batch.to_tokens(macro_s)
