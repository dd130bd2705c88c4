"""Lite PPO's advantage: the mean of the group, the spread of the whole batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from components.rl.configs import AdvantageConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class GroupMeanBatchStdConfig(AdvantageConfig):
    """How the standard deviation of the batch is computed."""

    epsilon: float = Field(default=1e-6, gt=0)
    """Added to the standard deviation."""
    ddof: Literal[0, 1] = 1
    """Subtracted from the number of responses in the variance."""


def group_mean_batch_std(batch: Batch, context: SlotContext, *, config: GroupMeanBatchStdConfig) -> Tensor:
    """Return [S]: A_i = (R_i - mean of the group) / (standard deviation of all rewards of the step + epsilon).

    Unlike division by the group's own deviation, this does not inflate groups of nearly equal rewards. Exactly 0 where
    a group's rewards are equal. Source: Liu et al. 2025, Tricks or Traps (arXiv:2508.08221), Lite PPO.
    """
    if batch.num_traces <= config.ddof:
        return batch.rewards * 0
    spread = batch.of_traces(batch.rewards).double().std(correction=config.ddof)
    return (batch.group_centred(batch.rewards).double() / (spread + config.epsilon)).to(batch.rewards.dtype)
