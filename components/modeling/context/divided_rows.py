"""Rows of a tensor that are divided over the ranks of a group: gathered on all of them, and back, with gradients.

Shapes: N rows of all ranks, n of this one, and at least one more that counts for nothing where it has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, distributed

from components.modeling.packing.placing import placed
from components.modeling.ranks import Ranks


@dataclass(frozen=True)
class DividedRows:
    """Which rows each rank has."""

    ranks: Ranks
    own: Tensor
    """[n] this rank's rows."""
    most: int
    """Rows of the rank that has most."""
    places: Tensor
    """[N] place of every row among those of all ranks, each padded to `most`."""

    @classmethod
    def of(cls, parts: Sequence[Tensor], ranks: Ranks) -> DividedRows:
        """Return the division of all rows, of which rank i has `parts[i]`."""
        most = max(1, *map(len, parts))
        places = torch.empty(sum(map(len, parts)), dtype=torch.long)
        for index, part in enumerate(parts):
            places[part] = torch.arange(len(part)) + index * most
        return cls(ranks, parts[ranks.index], most, places)

    def to(self, device: torch.device | str) -> DividedRows:
        """Return the division with its index tensors on a device."""
        return replace(self, own=placed(self.own, device), places=placed(self.places, device))

    def gather(self, part: Tensor) -> Tensor:
        """Return all rows [N, ...] of this rank's [n, ...], on every rank; without gradients."""
        given = part.new_zeros(self.most, *part.shape[1:])
        given[: len(self.own)] = part[: len(self.own)]
        whole = part.new_empty(self.ranks.count * self.most, *part.shape[1:])
        distributed.all_gather_single(whole, given, group=self.ranks.group)
        return whole.index_select(0, self.places)

    def sum(self, whole: Tensor, rows: int) -> Tensor:
        """Return this rank's rows of the sum over ranks of [N, ...], and zeros up to `rows`; without gradients."""
        # Ranks' parts of a gradient are added in at least float32, as one rank would have added them.
        dtype = torch.promote_types(whole.dtype, torch.float32)
        given = whole.new_zeros(self.ranks.count * self.most, *whole.shape[1:], dtype=dtype)
        given.index_copy_(0, self.places, whole.to(dtype))
        own = given.new_empty(self.most, *whole.shape[1:])
        distributed.reduce_scatter_single(own, given, group=self.ranks.group)
        return _resized(own[: len(self.own)], rows).to(whole.dtype)

    def shared(self, part: Tensor) -> Tensor:
        """Return all rows [N, ...]; ranks compute different things of them, so gradients are summed over ranks."""
        return _Shared.apply(part, self)

    def joined(self, part: Tensor) -> Tensor:
        """Return all rows [N, ...]; all ranks compute the same of them, so each one's gradient counts for its own."""
        return _Joined.apply(part, self)


class _Shared(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, part: Tensor, divided: DividedRows) -> Tensor:
        ctx.divided, ctx.rows = divided, len(part)
        return divided.gather(part)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return ctx.divided.sum(grads[0], ctx.rows), None


class _Joined(_Shared):
    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return _resized(grads[0].index_select(0, ctx.divided.own), ctx.rows), None


def _resized(tensor: Tensor, rows: int) -> Tensor:
    """Return a tensor with zero rows added."""
    if len(tensor) == rows:
        return tensor
    return torch.cat((tensor, tensor.new_zeros(rows - len(tensor), *tensor.shape[1:])))
