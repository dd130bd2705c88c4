"""The weakest part is the reward: no part can make up for another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from components.rl.combine_config import CombineConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch
    from components.rl.batch.reward_part import RewardPart


class MinimumConfig(CombineConfig):
    """No settings of its own."""


def minimum(parts: Sequence[RewardPart], batch: Batch, context: SlotContext, *, config: MinimumConfig) -> Tensor:
    """Return [S]: the least of weight times value; parts of weight 0 do not count.

    Token rewards count by their sum.
    """
    import torch

    return torch.stack([part.weighted for part in parts if part.weight]).amin(0)
