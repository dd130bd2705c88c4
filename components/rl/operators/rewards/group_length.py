"""Short responses are preferred within a group, as far as they are right."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from components.rl.configs import RewardConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class GroupLengthConfig(RewardConfig):
    """What is measured."""

    reads: ClassVar[frozenset[str]] = frozenset({"outcomes"})
    shift: float = Field(default=0.5, ge=0, le=1)
    """Reward of the shortest response of a group; the longest has 1 less."""


def group_length(batch: Batch, context: SlotContext, *, config: GroupLengthConfig) -> Tensor:
    """Return [S]: shift - (length - shortest) / (longest - shortest) of the group for right responses, at most 0 for
    the others; 0 where all are equally long. Lengths are learned tokens.

    Source: Kimi k1.5 (arXiv:2501.12599), section 2.3.3, length penalty, with shift 0.5.
    """
    from components.rl.batch.batch import RIGHT

    lengths = batch.of_learned().response_lengths.double()
    empty = lengths.new_zeros(batch.num_prompts)
    low = empty.scatter_reduce(0, batch.group, lengths, "amin", include_self=False)[batch.group]
    high = empty.scatter_reduce(0, batch.group, lengths, "amax", include_self=False)[batch.group]
    value = config.shift - (lengths - low) / (high - low).clamp(min=1)
    value = value.where(batch.outcomes == RIGHT, value.clamp(max=0.0))
    return value.masked_fill(high == low, 0.0).float()
