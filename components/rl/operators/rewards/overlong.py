"""DAPO's soft overlong punishment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from components.rl.configs import RewardConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class OverlongConfig(RewardConfig):
    """Where the punishment begins."""

    cache_share: float = Field(default=0.2, gt=0, le=1)
    """Width of the interval of rising punishment, as a share of the token limit. DAPO: 4,096 of 20,480 tokens."""


def overlong(batch: Batch, context: SlotContext, *, config: OverlongConfig) -> Tensor:
    """Return [S]: 0 for short responses, falling linearly to -1 over the last tokens before the limit.

    The longest turn counts, since the limit applies to each turn.

    Source: Yu et al. 2025, DAPO (arXiv:2503.14476), eq. 13, with L_max = `max_new_tokens` and
    L_cache = `cache_share` * L_max. Responses are cut at L_max, so its third case is reached at most at equality.
    """
    limit = context.settings.max_new_tokens
    cache = config.cache_share * limit
    return ((limit - cache - _longest_turns(batch)) / cache).clamp(min=-1.0, max=0.0)


def _longest_turns(batch: Batch) -> Tensor:
    """Return [S]: tokens of the longest turn of each trajectory."""
    import torch

    learned = batch.of_learned()
    if learned.around is None and learned.one_row_each:
        return learned.lengths
    by_turn = [learned.response_sum((learned.turn == turn).long()) for turn in learned.turn.unique().tolist()]
    return torch.stack(by_turn).amax(0)
