"""No guidance: groups are learned from as they were sampled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from components.rl.step.slots import NoConfig, SlotContext

if TYPE_CHECKING:
    from components.rl.batch.batch import Batch
    from components.rl.step.collector import Collector


def none(batch: Batch, collector: Collector, context: SlotContext, *, config: NoConfig) -> Batch:
    """Return the batch itself."""
    return batch
