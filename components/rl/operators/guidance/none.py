"""No guidance: groups are learned from as sampled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from components.rl.configs import NoConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from components.rl.batch.batch import Batch
    from components.rl.step.collector import Collector


def none(batch: Batch, collector: Collector, context: SlotContext, *, config: NoConfig) -> Batch:
    """Return the batch itself."""
    return batch
