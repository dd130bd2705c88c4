"""One part of a reward: what a reward operator says of every response, before the parts are combined.

Shapes as in components/rl/batch/batch.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from components.rl.batch.batch import Batch
from components.rl.batch.returns import at_last


@dataclass(frozen=True)
class RewardPart:
    """The values of one reward operator; weights are not in them."""

    name: str
    """The operator's name, or a function's in a file; one that occurs again is numbered, as in "pattern 2"."""
    weight: float
    """Its factor in the sum; a part of weight 0 is watched in the history and changes no reward."""
    value: Tensor
    """[S] float32: of each response; for rewards of tokens, their sum."""
    tokens: Tensor | None = None
    """[N] float32: received at each token; None if the operator gives one value for the response."""

    @property
    def weighted(self) -> Tensor:
        """[S]: weight times value."""
        return self.weight * self.value

    def select(self, batch: Batch, rows: Tensor) -> RewardPart:
        """Return the part of some rows, given as a mask [S] of `batch`."""
        tokens = None if self.tokens is None else self.tokens[batch.to_tokens(rows)]
        return replace(self, value=self.value[rows], tokens=tokens)


def part_of(name: str, weight: float, values: Tensor, batch: Batch) -> RewardPart:
    """Return the part that an operator's values make, given per response [S] or per token [N]."""
    if len(values) == batch.num_tokens != batch.num_responses:
        tokens = values.float()
        return RewardPart(name, weight, batch.response_sum(tokens), tokens)
    return RewardPart(name, weight, values)


def weighted_sum(parts: Sequence[RewardPart], batch: Batch) -> Tensor:
    """Return the weighted sum of the parts: [S], or [N] if one of them is received at tokens."""
    if all(part.tokens is None for part in parts):
        return torch.stack([part.weighted for part in parts]).sum(0)
    found = torch.zeros(batch.num_tokens)
    for part in parts:
        found += at_last(batch, part.weighted) if part.tokens is None else part.weight * part.tokens
    return found


def kept_where(passed: Tensor, reward: Tensor, batch: Batch, *, otherwise: float) -> Tensor:
    """Return a reward, [S] or [N], where a mask [S] holds; the other responses get `otherwise`, at their end."""
    replaced = torch.full((batch.num_responses,), otherwise)
    if len(reward) == batch.num_responses:
        return torch.where(passed, reward, replaced)
    return torch.where(batch.to_tokens(passed), reward, at_last(batch, replaced))


def all_reach(parts: Sequence[RewardPart], names: Sequence[str], least: float) -> Tensor:
    """Return [S] bool: whether each of the named parts is at least `least`."""
    return torch.stack([part.value >= least for part in parts if part.name in names]).all(0)
