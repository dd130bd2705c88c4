"""DAPO's dynamic sampling: only groups with both outcomes, and new prompts to replace the others."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from pydantic import Field

from components.contract.params import Params
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from components.rl.batch.batch import Batch


class DynamicSamplingConfig(Params):
    """How many rounds to search for groups with both outcomes."""

    max_refills: int = Field(default=3, ge=0, le=100)
    """Rounds of new prompts, each at most as large as the first; after them the batch may stay short."""


def dynamic_sampling(
    batch: Batch, more: Callable[[int], Batch], context: SlotContext, *, config: DynamicSamplingConfig
) -> Batch:
    """Keep groups with 0 < right < all, and refill up to the batch's original number of groups.

    Source: Yu et al. 2025, DAPO (arXiv:2503.14476), eq. 11. The paper samples until the batch is full; the bound is
    ours, and so is the size of a refill: missing groups / share of groups kept so far, at most one batch.
    """
    from components.rl.batch.joining import concatenate

    wanted = batch.num_prompts
    kept = _both_outcomes(batch)
    drawn = wanted
    for _ in range(config.max_refills):
        missing = wanted - kept.num_prompts
        if missing <= 0:
            break
        share = max(kept.num_prompts, 1) / drawn
        fresh = more(min(wanted, math.ceil(missing / share)))
        drawn += fresh.num_prompts
        kept = concatenate([kept, _both_outcomes(fresh)])
    return kept.first_groups(wanted)


def _both_outcomes(batch: Batch) -> Batch:
    return batch.select(~batch.group_is_equal(batch.outcomes))
