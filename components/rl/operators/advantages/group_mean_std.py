"""GRPO's advantage: rewards standardised within their group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from components.contract.params import Params
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class GroupMeanStdConfig(Params):
    """How the standard deviation of a group is computed."""

    epsilon: float = Field(default=1e-6, gt=0)
    """Added to the standard deviation. The paper has none; released code uses 1e-6 to 1e-4."""
    ddof: Literal[0, 1] = 1
    """Subtracted from the group size in the variance. The paper does not say; released code uses 1."""


def group_mean_std(batch: Batch, context: SlotContext, *, config: GroupMeanStdConfig) -> Tensor:
    """Return [S]: A_i = (R_i - mean of the group) / (standard deviation of the group + epsilon).

    Source: Shao et al. 2024, DeepSeekMath (arXiv:2402.03300), section 4.1.2. Exactly 0 where all rewards are equal.
    """
    spread = batch.group_std(batch.rewards, ddof=config.ddof)
    return batch.group_centred(batch.rewards) / (spread + config.epsilon)
