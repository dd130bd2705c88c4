"""Task vectors trimmed, with one sign elected for each weight, and the mean of those that agree with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from components.merge.config import TaskVectorConfig

if TYPE_CHECKING:
    from torch import Tensor

    from components.merge.stack import Block, Stack


class TiesConfig(TaskVectorConfig):
    """How much is kept, and of what."""

    keep: float = Field(default=0.2, gt=0, le=1)
    """Share of a task vector's entries that is kept, the largest by magnitude; of equal ones all."""
    among: Literal["model", "tensor"] = "model"
    """Whether the largest entries of the whole model are kept, as the paper does, or of each tensor."""


def ties(stack: Stack, *, config: TiesConfig) -> Callable[[Block], Tensor]:
    """Return B + scale times, for each weight, the mean of the kept entries with the sign of their sum.

    Kept entries are multiplied by the models' weights first, and the mean is over the weights of those that agree.

    Source: Yadav et al. 2023, TIES-Merging (arXiv:2306.01708), section 3 and algorithm 1 (trim, elect sign, disjoint
    merge; 20 %, scale 1 in its experiments without validation). Weights, and trimming by tensor, are mergekit's.
    """
    weights = config.weights_at(stack.name, stack.count)
    least = [stack.kept_from(model, config.keep, whole_model=config.among == "model") for model in range(stack.count)]

    def merge(block: Block) -> Tensor:
        from components.merge.elected import add_elected

        deltas = block.deltas()
        for delta, bound in zip(deltas, least, strict=True):
            delta[delta.abs() < bound] = 0.0
        return add_elected(block.base, deltas, weights, config.scale)

    return merge
