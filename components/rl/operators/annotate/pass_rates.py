"""The pass rate of each group, marked for an objective that reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from components.rl.configs import SlotConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from components.rl.batch.batch import Batch


class PassRatesConfig(SlotConfig):
    """No settings."""

    writes: ClassVar[frozenset[str]] = frozenset({"pass_rate_s"})


def pass_rates(batch: Batch, context: SlotContext, *, config: PassRatesConfig) -> Batch:
    """Mark `pass_rate_s` [S]: the share of right responses in the group of each row.

    An objective cannot compute it itself: a forward pass may hold only part of a group.
    """
    from components.rl.batch.batch import RIGHT

    return batch.with_extras(pass_rate_s=batch.group_mean((batch.outcomes == RIGHT).float()))
