"""Groups whose rewards are all equal are dropped."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from components.rl.configs import NoConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from components.rl.batch.batch import Batch


def drop_equal_rewards(batch: Batch, more: Callable[[int], Batch], context: SlotContext, *, config: NoConfig) -> Batch:
    """Keep groups with at least two different rewards, without refilling.

    The dropped groups have no gradient under a group baseline anyway. Without them in the denominator, the update does
    not shrink as more prompts are solved.
    """
    return batch.select(~batch.group_is_equal(batch.rewards))
