"""Every prompt once per epoch, in a new random order for each epoch."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

from components.rl.configs import NoConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from components.rl.batch.batch import Prompt


def epoch_shuffle(pool: Sequence[Prompt], count: int, context: SlotContext, *, config: NoConfig) -> list[int]:
    """Return the next `count` indices of an endless sequence of shuffled epochs.

    The order of epoch e depends on the seed and e only; the memory holds the number of indices drawn.
    """
    drawn: int = context.memory.setdefault("drawn", 0)
    context.memory["drawn"] = drawn + count
    picked: list[int] = []
    while len(picked) < count:
        epoch, offset = divmod(drawn + len(picked), len(pool))
        order = list(range(len(pool)))
        random.Random(f"{context.seed}/epoch/{epoch}").shuffle(order)
        picked += order[offset : offset + count - len(picked)]
    return picked
