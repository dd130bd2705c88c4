"""Prompts drawn uniformly, independently of what was drawn before."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

from components.rl.configs import NoConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from components.rl.batch.batch import Prompt


def uniform(pool: Sequence[Prompt], count: int, context: SlotContext, *, config: NoConfig) -> list[int]:
    """Return `count` indices: no repeats within one draw if the pool is large enough, repeats across draws."""
    draws: int = context.memory.setdefault("draws", 0)
    context.memory["draws"] = draws + 1
    generator = random.Random(f"{context.seed}/uniform/{draws}")
    if count <= len(pool):
        return generator.sample(range(len(pool)), count)
    return generator.choices(range(len(pool)), k=count)
