"""No replay: a step learns from its own batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from components.rl.configs import NoConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from components.rl.batch.batch import Batch


def none(batch: Batch, context: SlotContext, *, config: NoConfig) -> Sequence[Batch]:
    """Return the batch alone."""
    return [batch]
