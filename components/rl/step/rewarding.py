"""Rewards of a verified batch: each operator's part, and their combination.

Shapes as in components/rl/batch/batch.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from components.contract.operators import Bound
from components.rl.batch.batch import Batch
from components.rl.batch.reward_part import RewardPart, part_of
from components.rl.combine_config import CombineConfig
from components.rl.reward_names import part_names, weight_of
from components.rl.slots import Slots
from components.rl.step.context import SlotContext
from components.rl.step.returned import combined_of, rewards_of
from components.rl.step.reward_parts import placed


def parts_of(slots: Slots, batch: Batch, context_of: Callable[[Bound], SlotContext]) -> list[RewardPart]:
    """Return what each reward operator says of a verified batch; NaN where it could not say."""
    return [
        part_of(name, weight_of(bound), rewards_of(bound, bound(batch, context_of(bound)), batch), batch)
        for name, bound in zip(part_names(slots.rewards), slots.rewards, strict=True)
    ]


def combined(parts: Sequence[RewardPart], combine: Bound, batch: Batch, context: SlotContext) -> Tensor:
    """Return the reward of every response: [S], or [N] where it is received at tokens; NaN where a part is.

    Responses with a part of NaN are left out of what the combination sees, unless it declares `reads_nan`: then they
    have the reward that it gives them, which may be NaN. A part that is only watched fails no response.
    """
    parts = [_watched(part) if _is_watched(part, combine) else part for part in parts]
    unsure = torch.stack([part.value.isnan() for part in parts]).any(0)
    if not bool(unsure.any()):
        return combined_of(combine, combine(parts, batch, context), batch)
    if getattr(combine.config, "reads_nan", False):
        found = combined_of(combine, combine(parts, batch, context), batch, nan=True)
        return _whole(found, batch)
    sure = batch.to_rows(~batch.any_of_traces(unsure))
    kept = batch.select(sure)
    found = combined_of(combine, combine([part.select(batch, sure) for part in parts], kept, context), kept)
    rows = sure if len(found) == kept.num_responses else batch.to_tokens(sure)
    return placed(found, rows)


def _is_watched(part: RewardPart, combine: Bound) -> bool:
    """Return whether a part changes no reward: it has weight 0, and the combination does not name it.

    An own function may read it.
    """
    return not part.weight and isinstance(combine.config, CombineConfig) and part.name not in combine.config.named()


def _watched(part: RewardPart) -> RewardPart:
    tokens = None if part.tokens is None else part.tokens.nan_to_num()
    return replace(part, value=part.value.nan_to_num(), tokens=tokens)


def _whole(found: Tensor, batch: Batch) -> Tensor:
    """Return rewards, [S] or [N], that are NaN of a whole response, and of all rows of its trace, or nowhere in it."""
    at_tokens = len(found) == batch.num_tokens != batch.num_responses
    unsure = batch.to_rows(batch.any_of_traces((batch.response_sum(found) if at_tokens else found).isnan()))
    return found.masked_fill(batch.to_tokens(unsure) if at_tokens else unsure, torch.nan)
