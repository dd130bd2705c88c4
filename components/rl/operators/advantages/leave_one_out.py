"""RLOO's advantage: rewards minus the mean of the others in the group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from components.rl.configs import NoConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


def leave_one_out(batch: Batch, context: SlotContext, *, config: NoConfig) -> Tensor:
    """Return [S]: A_i = R_i - mean over j != i of R_j, computed as G / (G - 1) * (R_i - mean); 0 in a group of one.

    Source: Ahmadian et al. 2024, Back to Basics (arXiv:2402.14740), the RLOO estimator; Kool et al. 2019.
    """
    others = (batch.group_sizes - 1).clamp(min=1)
    return batch.group_centred(batch.rewards) * (batch.group_sizes / others)
