"""The pass rate of each group, marked for an objective that reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from components.rl.step.slots import NoConfig, SlotContext

if TYPE_CHECKING:
    from components.rl.batch.batch import Batch


def pass_rates(batch: Batch, context: SlotContext, *, config: NoConfig) -> Batch:
    """Mark `pass_rate_s` [S]: the share of right responses in each one's group; advantages stay.

    An objective cannot take it itself: a forward pass may hold a part of a group.
    """
    from components.rl.batch.batch import RIGHT

    return batch.with_extras(pass_rate_s=batch.group_mean((batch.outcomes == RIGHT).float()))
