"""SEC's sampler: a bandit over categories of prompts, rewarded by the size of the advantages."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from pydantic import Field

from components.rl.curricula.categories import CategoryConfig, draw, members, softmax
from components.rl.curricula.gains import Gain, new_gains
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from components.rl.batch.batch import Prompt


class BoltzmannBanditConfig(CategoryConfig):
    """The bandit's constants."""

    learning_rate: float = Field(default=0.5, gt=0, le=1)
    """alpha: how far a value moves towards the newest reward of its category."""
    temperature: float = Field(default=1.0, gt=0)
    """tau of the softmax over values: a low one draws only the best category, a high one draws uniformly."""
    initial_value: float = 0.0
    """Q of every category before its first try."""


def boltzmann_bandit(
    pool: Sequence[Prompt], count: int, context: SlotContext, *, config: BoltzmannBanditConfig
) -> list[int]:
    """Return `count` indices: each prompt's category is drawn from softmax(Q / tau), the prompt uniformly within it.

    Q(c) moves by TD(0) towards the mean |advantage| of the category's responses in the last step; other categories
    keep theirs. Source: Chen et al. 2025, Self-Evolving Curriculum (arXiv:2505.14970), section 3.
    """
    categories = members(pool, config.by)
    values = context.memory.setdefault("values", dict.fromkeys(categories, config.initial_value))
    for gains in new_gains(categories, pool, context):
        values |= td_update(values, gains, config.learning_rate)
    weights = softmax(values, config.temperature)
    context.metrics.update({f"weight_{name}": weight for name, weight in weights.items()})
    draws = context.memory["draws"] = context.memory.get("draws", -1) + 1
    rng = random.Random(f"{context.seed}/boltzmann_bandit/{draws}")
    return draw(categories, weights, count, rng)


def td_update(values: Mapping[str, float], gains: Iterable[Gain], learning_rate: float) -> dict[str, float]:
    """Return Q(c) <- alpha r(c) + (1 - alpha) Q(c) for the categories of one step's gains.

    r(c) is the mean |advantage| over the category's responses.
    """
    sums: dict[str, tuple[float, int]] = {}
    for gain in gains:
        total, number = sums.get(gain.category, (0.0, 0))
        sums[gain.category] = (total + gain.mean_abs_advantage * gain.num_responses, number + gain.num_responses)
    return {
        name: learning_rate * total / number + (1 - learning_rate) * values[name]
        for name, (total, number) in sums.items()
    }
