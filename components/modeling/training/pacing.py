"""When a training makes partial checkpoints: at steps, after minutes, or as often as they cost next to nothing."""

from __future__ import annotations

import math
from typing import Protocol

from components.modeling.ranks import Ranks


class Clock(Protocol):
    """The part of StageContext that says how late it is."""

    def checkpoint_due(self, minutes: float | None) -> bool:
        """Return whether a checkpoint should be made now."""
        ...


def is_due(clock: Clock, ranks: Ranks, step: int, every: int | None, minutes: float | None) -> bool:
    """Return whether a checkpoint follows `step`, the same on all ranks, which must all call it.

    `every` counts steps, 0 for none; `minutes` are since the last one. Without both it is paced by what they cost.
    """
    if every and step % every == 0:
        return True
    if every is not None and minutes is None:  # only a process that is told to end makes one in between
        return every > 0 and ranks.first_says(lambda: clock.checkpoint_due(math.inf))
    return ranks.first_says(lambda: clock.checkpoint_due(minutes))
