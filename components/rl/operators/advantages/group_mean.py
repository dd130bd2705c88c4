"""Dr. GRPO's advantage: rewards minus the mean of their group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from components.rl.configs import NoConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


def group_mean(batch: Batch, context: SlotContext, *, config: NoConfig) -> Tensor:
    """Return [S]: A_i = R_i - mean of the group; prompts of every difficulty keep their natural weight.

    Source: Liu et al. 2025, Understanding R1-Zero-Like Training (arXiv:2503.20783), section 3.2.
    """
    return batch.group_centred(batch.rewards)
