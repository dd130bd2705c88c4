"""The parts of a step's rewards, kept for people and the history.

Shapes as in components/rl/batch/batch.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from components.rl.batch.batch import Batch
from components.rl.batch.reward_part import RewardPart
from components.rl.reward_names import column_of


def with_rewards(batch: Batch, found: Tensor) -> Batch:
    """Return a batch with rewards, given per response [S] or per token [N]."""
    if len(found) == batch.num_tokens != batch.num_responses:
        return replace(batch, rewards=batch.response_sum(found), token_rewards=found)
    return replace(batch, rewards=found)


class PartMeans:
    """The mean of every part over the policy's own verified responses of a step, before weights and combination."""

    def __init__(self) -> None:
        self._sums: dict[str, tuple[float, int]] = {}

    def add(self, parts: Sequence[RewardPart], batch: Batch) -> None:
        """Add the responses of a batch; those without a value do not count."""
        if not parts:
            return
        own_t = batch.of_traces(~batch.external)
        for part in parts:
            value_t = batch.of_traces(part.value)[own_t]
            value_t = value_t[~value_t.isnan()].double()
            total, count = self._sums.get(part.name, (0.0, 0))
            self._sums[part.name] = total + float(value_t.sum()), count + len(value_t)

    def metrics(self) -> dict[str, float]:
        """Return `reward_<name>` of every part that has a value."""
        return {column_of(name): total / count for name, (total, count) in self._sums.items() if count}


def placed(values: Tensor, rows: Tensor) -> Tensor:
    """Return [S] with `values` at the rows of a mask [S], NaN elsewhere."""
    whole = torch.full((len(rows),), torch.nan)
    whole[rows] = values.float()
    return whole


def concatenated(seen: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Return name -> [S] over all scored batches of a step."""
    return {name: torch.cat([parts[name] for parts in seen]) for name in (seen[0] if seen else ())}
