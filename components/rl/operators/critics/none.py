"""No critic: only a name; without a value model this is never called."""

from __future__ import annotations

from typing import TYPE_CHECKING

from components.rl.configs import NoConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


def none(batch: Batch, context: SlotContext, *, config: NoConfig) -> Tensor:
    """Return the batch's values unchanged."""
    return batch.values
