"""Groups in which every response earned the same are left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from components.rl.configs import NoConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from components.rl.batch.batch import Batch


def drop_equal_rewards(batch: Batch, more: Callable[[int], Batch], context: SlotContext, *, config: NoConfig) -> Batch:
    """Keep groups with at least two different rewards; nothing is refilled.

    Such groups have no gradient under a group baseline anyway. Dropping them also takes them out of the denominator,
    so the step does not shrink as more prompts are solved.
    """
    return batch.select(~batch.group_is_equal(batch.rewards))
