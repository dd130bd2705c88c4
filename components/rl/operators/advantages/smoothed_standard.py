"""DCPO's advantage: standardised by this step's group and by all responses to the prompt so far."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from components.rl.configs import AdvantageConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class SmoothedStandardConfig(AdvantageConfig):
    """How standard deviations are computed."""

    epsilon: float = Field(default=1e-6, gt=0)
    """Added to standard deviations."""
    ddof: Literal[0, 1] = 1
    """Subtracted from the number of rewards in the variance."""


def smoothed_standard(batch: Batch, context: SlotContext, *, config: SmoothedStandardConfig) -> Tensor:
    """Return [S]: the one closer to 0 of two mixtures of A_new and A_total; i is the number of visits to the prompt.

    SA_new = (i - 1)/i A_new + 1/i A_total and SA_total = 1/i A_new + (i - 1)/i A_total; A_new standardises by the group
    of this step, A_total by all rewards of the prompt so far, these included. At the first visit both are A_new. A
    group of equal rewards has A_new = 0 and still trains by A_total / i, unless all the prompt's rewards are equal.
    The history (count, mean, squared deviations by item id) is in the operator's memory.
    Source: Yang et al. 2025, DCPO (arXiv:2509.02333), smooth advantage standardisation.
    """
    import torch

    advantages: list[float] = []
    sizes = torch.bincount(batch.of_traces(batch.group), minlength=batch.num_prompts).tolist()
    for prompt, part in zip(batch.prompts, batch.of_traces(batch.rewards).double().split(sizes), strict=True):
        rewards = part.tolist()
        group = Moments().joined(rewards)
        visits, *saved = context.memory.get(prompt.item.id, [0, 0, 0.0, 0.0])
        total, visits = Moments(*saved).joined(rewards), visits + 1
        context.memory[prompt.item.id] = [visits, total.count, total.mean, total.squares]
        spreads = [moments.spread(config.ddof) + config.epsilon for moments in (group, total)]
        for reward in rewards:
            new, old = (reward - group.mean) / spreads[0], (reward - total.mean) / spreads[1]
            share = (visits - 1) / visits
            mixtures = (share * new + (1 - share) * old, (1 - share) * new + share * old)
            advantages.append(min(mixtures, key=abs))
    return batch.to_rows(torch.tensor(advantages, dtype=batch.rewards.dtype))


class Moments:
    """Count, mean and summed squared deviations of rewards, joined without cancellation (Chan et al. 1979)."""

    def __init__(self, count: int = 0, mean: float = 0.0, squares: float = 0.0) -> None:
        self.count, self.mean, self.squares = count, mean, squares

    def joined(self, rewards: Sequence[float]) -> Moments:
        """Return the moments with these rewards added; equal rewards have exactly 0 squares."""
        size, pivot = len(rewards), rewards[0]
        mean = pivot + math.fsum(reward - pivot for reward in rewards) / size
        squares = math.fsum((reward - mean) ** 2 for reward in rewards)
        if not self.count:
            return Moments(size, mean, squares)
        total, gap = self.count + size, mean - self.mean
        return Moments(
            total,
            self.mean + gap * size / total,
            self.squares + squares + gap * gap * self.count * size / total,
        )

    def spread(self, ddof: int) -> float:
        """Return the standard deviation; 0 if too few rewards have one."""
        return math.sqrt(self.squares / max(1, self.count - ddof))
