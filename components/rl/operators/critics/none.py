"""No critic: a name only; no value model is made, so this is never called."""

from __future__ import annotations

from typing import TYPE_CHECKING

from components.rl.configs import NoConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


def none(batch: Batch, context: SlotContext, *, config: NoConfig) -> Tensor:
    """Return the values that the batch has."""
    return batch.values
