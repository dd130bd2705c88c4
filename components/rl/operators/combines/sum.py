"""The default: parts are added."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from components.rl.combine_config import CombineConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch
    from components.rl.batch.reward_part import RewardPart


class SumConfig(CombineConfig):
    """No settings of its own: the weights are the parts'."""


def sum(parts: Sequence[RewardPart], batch: Batch, context: SlotContext, *, config: SumConfig) -> Tensor:
    """Return [S] or [N]: the sum of weight times value over the parts; [N] if a part is received at tokens."""
    from components.rl.batch.reward_part import weighted_sum

    return weighted_sum(parts, batch)
