"""RL-PLUS: the policy's own responses by importance ratio, demonstrations by multiple importance sampling."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from components.rl.batch.token_loss import TokenLoss
from components.rl.configs import ObjectiveConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from components.modeling.packing.logprobs import TokenScores
    from components.rl.batch.batch import Batch


class RLPlusConfig(ObjectiveConfig):
    """The treatment of own and external tokens."""

    clip_low: float | None = Field(default=0.2, ge=0, le=1)
    """Own tokens: the ratio is clipped below at 1 - clip_low; null for no bound."""
    clip_high: float | None = Field(default=0.2, ge=0)
    """Own tokens: the ratio is clipped above at 1 + clip_high; null for no bound."""
    gamma: float = Field(default=0.5, ge=0)
    """External tokens: the advantage is multiplied by (1 - pi)^gamma, so that unlikely tokens count more."""
    external_max: float | None = Field(default=None, gt=0)
    """Upper bound of the external ratio; null for none."""


def rl_plus(scores: TokenScores, batch: Batch, context: SlotContext, *, config: RLPlusConfig) -> TokenLoss:
    """Return per own token -min(r A, clip(r) A) as in ppo_clip, and per external token -r_ext A (1 - pi)^gamma.

    r_ext = 2 pi / (pi_old + w) with w = (pi_old + 1) / 2, the estimate of the unknown behaviour policy: the mean of the
    old policy and a uniform guess of 1. (1 - pi) has no gradient. Metric `external_ratio`: r_ext at external tokens.
    Source: Dong et al. 2025, RL-PLUS (arXiv:2508.00222), and its released code.
    """
    import torch

    external_n = batch.to_tokens(batch.external)
    ratio_n = torch.exp(scores.logprobs - batch.old_logprobs)
    low = 0.0 if config.clip_low is None else 1 - config.clip_low
    clipped_n = ratio_n.clamp(low, None if config.clip_high is None else 1 + config.clip_high)
    own_n = torch.minimum(ratio_n * batch.advantages, clipped_n * batch.advantages)
    probability_n, old_n = scores.logprobs.exp(), batch.old_logprobs.exp()
    external_ratio_n = 2 * probability_n / (old_n + (old_n + 1) / 2)
    if config.external_max is not None:
        external_ratio_n = external_ratio_n.clamp(max=config.external_max)
    # rounding may lift a probability above 1, where the power is NaN
    unlikely_n = (1 - probability_n.detach()).clamp(min=0) ** config.gamma
    gain_n = torch.where(external_n, external_ratio_n * batch.advantages * unlikely_n, own_n)
    return TokenLoss(-gain_n, {"external_ratio": external_ratio_n.detach() * external_n})
