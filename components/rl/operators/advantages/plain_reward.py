"""REINFORCE's advantage without a baseline: the reward itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from components.rl.configs import NoConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


def plain_reward(batch: Batch, context: SlotContext, *, config: NoConfig) -> Tensor:
    """Return [S]: A_i = R_i.

    Source: Williams 1992, Simple Statistical Gradient-Following Algorithms, with reinforcement baseline 0.
    """
    return batch.rewards
