"""Prompts that are failed often are drawn often."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from components.rl.configs import SlotConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from components.rl.batch.batch import Prompt


class PriorityConfig(SlotConfig):
    """What counts for a prompt that was never tried, or is always solved."""

    reads: ClassVar[frozenset[str]] = frozenset({"outcomes"})
    unseen: float = Field(default=0.0, ge=0, le=1)
    """Success rate of a prompt that was not tried yet; 0 draws it as often as one that always fails."""
    floor: float = Field(default=0.0, ge=0, lt=1)
    """Lowest weight of a prompt, so that solved ones are seen again; 0 is the paper's."""


def priority(pool: Sequence[Prompt], count: int, context: SlotContext, *, config: PriorityConfig) -> list[int]:
    """Return `count` indices, each next one drawn with probability in proportion to 1 - success rate.

    Within a draw no prompt repeats while others of weight are left; then the draw begins anew, and where no prompt has
    weight all have the same. Rates are those of the ledger, an earlier stage's included. Metric: `priority_mean`, the
    mean weight of the drawn prompts.

    Source: Kimi k1.5 (arXiv:2501.12599), section 2.3.4, prioritised sampling. Keys: Efraimidis and Spirakis 2006, by
    -log u / w in the place of u^(1/w), which is 0 for small weights.
    """
    draws: int = context.memory.setdefault("draws", 0)
    context.memory["draws"] = draws + 1
    weights = [max(config.floor, 1 - _rate(prompt, context, config)) for prompt in pool]
    if not any(weights):
        weights = [1.0] * len(pool)
    generator = random.Random(f"{context.seed}/priority/{draws}")
    picked: list[int] = []
    while len(picked) < count:
        keys = {index: generator.expovariate(weight) for index, weight in enumerate(weights) if weight}
        picked += sorted(keys, key=lambda index: keys[index])[: count - len(picked)]
    context.metrics["priority_mean"] = sum(weights[index] for index in picked) / count
    return picked


def _rate(prompt: Prompt, context: SlotContext, config: PriorityConfig) -> float:
    known = context.ledger.get(prompt.item.id)
    rate = None if known is None else known.pass_rate
    return config.unseen if rate is None else rate
