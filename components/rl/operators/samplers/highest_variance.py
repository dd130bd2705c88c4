"""Prompts whose outcomes vary most: pass rate near one half."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import Field

from components.rl.configs import SlotConfig
from components.rl.curricula.first_rates import profile
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from components.rl.batch.batch import Prompt


class HighestVarianceConfig(SlotConfig):
    """How many prompts are drawn from, and how they are measured."""

    top: int = Field(default=64, ge=1)
    """Prompts of highest variance p (1 - p) that are drawn from."""
    num_samples: int = Field(default=16, ge=2)
    """Responses used to measure a prompt before training, if it is not in the ledger."""


def highest_variance(
    pool: Sequence[Prompt], count: int, context: SlotContext, *, config: HighestVarianceConfig
) -> list[int]:
    """Return `count` indices, drawn in shuffled rounds from the `top` prompts of highest reward variance.

    The usual heuristic of few-prompt RLVR, for comparison. Pass rates are measured before training and not updated.
    """
    if "top" not in context.memory:
        rates = profile(pool, context, config.num_samples)
        order = sorted(range(len(pool)), key=lambda index: -rates[index] * (1 - rates[index]))
        context.memory.update(top=order[: config.top], drawn=0)
    top: list[int] = context.memory["top"]
    drawn: int = context.memory["drawn"]
    context.memory["drawn"] = drawn + count
    picked = []
    for place in range(drawn, drawn + count):
        walk, offset = divmod(place, len(top))
        picked.append(random.Random(f"{context.seed}/highest_variance/{walk}").sample(top, len(top))[offset])
    return picked
