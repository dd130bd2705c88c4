"""Task vectors of which entries are dropped at random, and the rest made larger."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pydantic import Field

from components.merge.config import TaskVectorConfig

if TYPE_CHECKING:
    from torch import Tensor

    from components.merge.stack import Block, Stack


class DareConfig(TaskVectorConfig):
    """How much is dropped, and how the rest is added."""

    drop: float = Field(default=0.5, ge=0, lt=1)
    """Probability with which an entry of a task vector is dropped; the rest is divided by 1 - drop."""
    elect_signs: bool = False
    """Whether what is left is merged as by `ties`, one sign for each weight, in the place of summed."""
    seed: int = Field(default=0, ge=0)
    """Draws other entries, beside the stage's seed."""


def dare(stack: Stack, *, config: DareConfig) -> Callable[[Block], Tensor]:
    """Return B + scale sum_m w_m d_m / (1 - p), where d_m is W_m - B with entries dropped with probability p.

    Which entries are dropped depends on the seeds, the tensor's name, the model's position and the place in the tensor
    alone.

    Source: Yu et al. 2024, Language models are super Mario (arXiv:2311.03099), section 3.2; with signs elected it is
    its combination with TIES-Merging.
    """
    weights = config.weights_at(stack.name, stack.count)

    def merge(block: Block) -> Tensor:
        from components.merge.elected import add_elected

        deltas = block.deltas()
        for model, delta in enumerate(deltas):
            kept = block.uniform(f"dare {config.seed} {model}") >= config.drop
            delta.mul_(kept).div_(1.0 - config.drop)
        if config.elect_signs:
            return add_elected(block.base, deltas, weights, config.scale)
        merged = block.base.clone()
        for weight, delta in zip(weights, deltas, strict=True):
            merged.add_(delta, alpha=config.scale * weight)
        return merged

    return merge
