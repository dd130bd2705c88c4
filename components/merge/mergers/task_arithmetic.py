"""The base with the models' task vectors added."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from components.merge.config import TaskVectorConfig

if TYPE_CHECKING:
    from torch import Tensor

    from components.merge.stack import Block, Stack


class TaskArithmeticConfig(TaskVectorConfig):
    """How much of each task vector; a negative weight takes a task away."""


def task_arithmetic(stack: Stack, *, config: TaskArithmeticConfig) -> Callable[[Block], Tensor]:
    """Return B + scale sum_m w_m (W_m - B).

    Source: Ilharco et al. 2023, Editing models with task arithmetic (arXiv:2212.04089), section 2.
    """
    weights = config.weights_at(stack.name, stack.count)

    def merge(block: Block) -> Tensor:
        merged = block.base.clone()
        for weight, delta in zip(weights, block.deltas(), strict=True):
            merged.add_(delta, alpha=config.scale * weight)
        return merged

    return merge
