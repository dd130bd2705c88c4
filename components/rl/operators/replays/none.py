"""No replay: a step learns from its own batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from components.rl.step.slots import NoConfig, SlotContext

if TYPE_CHECKING:
    from components.rl.batch.batch import Batch


def none(batch: Batch, context: SlotContext, *, config: NoConfig) -> Sequence[Batch]:
    """Return the batch alone."""
    return [batch]
