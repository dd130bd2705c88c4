"""Each part is standardised in its group, so that none counts more by its scale alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import Field

from components.rl.combine_config import CombineConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch
    from components.rl.batch.reward_part import RewardPart


class StandardisedConfig(CombineConfig):
    """How the deviation is estimated."""

    epsilon: float = Field(default=1e-6, gt=0)
    """Added to the standard deviation."""
    ddof: int = Field(default=1, ge=0, le=1)
    """1: Bessel's correction of the deviation; 0: none."""


def standardised(
    parts: Sequence[RewardPart], batch: Batch, context: SlotContext, *, config: StandardisedConfig
) -> Tensor:
    """Return [S]: the sum over parts of weight * (value - group mean) / (group standard deviation + epsilon).

    A part that is equal in a group adds exactly 0 there. Token rewards count by their sum.
    """
    import torch

    def standard(part: RewardPart) -> Tensor:
        spread = batch.group_std(part.value, ddof=config.ddof)
        return part.weight * batch.group_centred(part.value) / (spread + config.epsilon)

    return torch.stack([standard(part) for part in parts]).sum(0)
