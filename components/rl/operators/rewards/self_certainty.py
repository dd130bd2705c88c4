"""How far the policy is from guessing, token by token: no labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from components.rl.configs import RewardConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class SelfCertaintyConfig(RewardConfig):
    """No settings of its own."""


def self_certainty(batch: Batch, context: SlotContext, *, config: SelfCertaintyConfig) -> Tensor:
    """Return [S]: the mean over learned tokens of KL(uniform || policy) = -log V - mean over the vocabulary of log p.

    In nats, at temperature 1, by the policy before the update; one forward pass, and the vocabulary's log-probabilities
    are never held beyond a chunk of logits.

    Source: Kang et al. 2025, Scalable Best-of-N Selection via Self-Certainty (arXiv:2502.18581); as a reward: Zhao et
    al. 2025, Intuitor (arXiv:2505.19590).
    """
    import math

    import torch

    from components.rl.step.scoring import frozen_token_map

    learned, policy = batch.of_learned(), context.collector.policy

    def certainty(hidden: Tensor, _: Tensor, logits_of: Callable[[Tensor], Tensor]) -> Tensor:
        logits = logits_of(hidden)
        return torch.logsumexp(logits, -1) - logits.mean(-1) - math.log(logits.shape[-1])

    found = frozen_token_map(policy, learned, certainty, context.collector.max_tokens)
    return learned.response_mean(found)
