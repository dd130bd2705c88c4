"""LaSeR's integration: a share of each advantage comes from the policy's own scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from components.rl.configs import AdvantageConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class MixSelfConfig(AdvantageConfig):
    """How much own scores count, where, and from when on."""

    reads: ClassVar[frozenset[str]] = frozenset({"self_reward_s"})
    share: float = Field(default=0.1, ge=0, le=1)
    """tau: share of the advantage by own scores; the rest is the advantage so far."""
    least_spread: float = Field(default=0.1, ge=0)
    """Groups whose scores have a standard deviation of at most this keep their advantages."""
    warmup_steps: int = Field(default=0, ge=0)
    """Steps before scores count, in which they are learned."""


def mix_self(batch: Batch, context: SlotContext, *, config: MixSelfConfig) -> Tensor:
    """Return [N]: (1 - share) A + share A_self, with A_self = (r - mean of the group) / standard deviation (ddof 1).

    r is mark `self_reward_s` of annotate self_reward, cut to [0, 1]. Metric `mixed_share`: share of the responses whose
    group has enough spread.
    Source: Yang et al. 2025, LaSeR (arXiv:2510.14943), and its released trainer.
    """
    if context.step < config.warmup_steps or not batch.num_responses:
        return batch.advantages
    score_s = batch.extras["self_reward_s"].double().clamp(0, 1)
    spread_s = batch.group_std(score_s, ddof=1)
    mixed_s = spread_s > config.least_spread
    own_s = batch.group_centred(score_s) / spread_s.masked_fill(~mixed_s, 1.0)
    mixed_n = (1 - config.share) * batch.advantages + config.share * batch.to_tokens(own_s.to(batch.advantages.dtype))
    context.metrics["mixed_share"] = float(mixed_s.double().mean())
    return batch.advantages.where(~batch.to_tokens(mixed_s), mixed_n)
