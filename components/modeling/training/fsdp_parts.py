"""Where a rank's shards lie in whole parameters: those of a tensor group are shards of different parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import NamedTuple

import torch
from torch import Tensor, distributed, nn

from components.contract.errors import InputError
from components.modeling.models.cut import Cut
from components.modeling.models.policy import Policy
from components.modeling.native.tensor.collectives import parts_of_all
from components.modeling.ranks import ranks_along
from components.modeling.training.fsdp_shards import own_rows
from components.modeling.training.shards import AT
from components.runtime.system.mesh import SHARDS, TENSOR


class _Rows(NamedTuple):
    """Rows of a shard that lie together in the whole parameter."""

    place: slice
    """In the shard."""
    whole: int
    """The first of them in the whole parameter."""
    part: int
    parts: int
    """How many ranks have different ones; fewer than all where some have copies."""
    first: bool
    """Whether no lower rank has them, too."""


class Parts:
    """The shards of one rank, by the name of each parameter; all ranks of its tensor group make the same calls."""

    def __init__(self, policy: Policy, parts: Mapping[str, Tensor]) -> None:
        """`parts` are this tensor rank's trained parameters, sharded; only their shapes are read."""
        self._sharers, self._tensor = ranks_along(SHARDS), ranks_along(TENSOR)
        self._cuts = {name: policy.cuts.get(name, Cut()) for name in parts}
        self._shapes = {name: tuple(part.shape) for name, part in parts.items()}
        self._wholes = {name: tuple(policy.whole_shape(name, part.shape)) for name, part in parts.items()}
        self.parted = bool(policy.cuts)

    def elements(self, name: str) -> range:
        """Return which elements of this tensor rank's parameter, flattened, are this rank's shard."""
        start, stop = self._span(name)
        width = prod(self._shapes[name][1:])
        return range(start * width, stop * width)

    def _span(self, name: str) -> tuple[int, int]:
        """Return the first row of the shard and the one behind its last."""
        total = self._shapes[name][0]
        most = -(-total // self._sharers.count)
        return min(total, most * self._sharers.index), min(total, most * (self._sharers.index + 1))

    def _rows(self, name: str) -> Iterator[_Rows]:
        start, stop = self._span(name)
        for run in self._cuts[name].runs(self._wholes[name][0], self._tensor.index, self._tensor.count):
            first, last = max(start, run.own), min(stop, run.own + run.rows)
            if first < last:
                place = slice(first - start, last - start)
                yield _Rows(place, run.whole + first - run.own, run.part, run.parts, run.first)

    def sum_gradients(self, shards: Mapping[str, nn.Parameter]) -> None:
        """Sum the gradients of weights that several ranks of the tensor group have and that each saw a part of."""
        if not self.parted:
            return
        pieces = [
            (p.grad[rows.place], rows)
            for name, p in shards.items()
            if p.grad is not None and not (self._cuts[name].alike and not self._cuts[name].summed)
            for rows in self._rows(name)
            if rows.parts < self._tensor.count
        ]
        if not pieces:
            return
        # Each rank adds to the place of its own part; copies of a part add to one place.
        sums = [piece.new_zeros(rows.parts, *piece.shape) for piece, rows in pieces]
        for total, (piece, rows) in zip(sums, pieces, strict=True):
            total[rows.part] = piece
        flat = torch.cat([total.flatten() for total in sums])
        distributed.all_reduce(flat, group=self._tensor.group)
        for found, total, (piece, rows) in zip(flat.split([s.numel() for s in sums]), sums, pieces, strict=True):
            piece.copy_(found.view_as(total)[rows.part])

    def counted_once(self, gradients: Mapping[str, Tensor]) -> list[Tensor]:
        """Return what this rank counts of the gradients, so that all ranks together count each element once."""
        return [gradients[name][rows.place] for name in gradients for rows in self._rows(name) if rows.first]

    def pieces(self, name: str, shard: Tensor) -> dict[str, Tensor]:
        """Return what this rank stores of a tensor of a parameter's shape, as "<name>@<first element>" -> [n]."""
        if not shard.numel():
            return {}
        width = prod(self._wholes[name][1:])
        if self._cuts[name].columns:  # whole rows of all ranks' columns, a share of them each
            whole = self._cuts[name].joined(parts_of_all(shard))
            start = next(self._rows(name)).whole
            shares = torch.arange(len(whole)).chunk(self._tensor.count)
            if self._tensor.index >= len(shares):
                return {}
            own = shares[self._tensor.index]
            first, last = int(own[0]), int(own[-1]) + 1
            return {f"{name}{AT}{(start + first) * width}": whole[first:last].flatten()}
        return {
            f"{name}{AT}{rows.whole * width}": shard[rows.place].flatten() for rows in self._rows(name) if rows.first
        }

    def own(self, name: str, whole: Tensor) -> Tensor:
        """Return this rank's shard of a whole tensor; raise InputError if its shape is not the parameter's."""
        if tuple(whole.shape) != self._wholes[name]:
            raise InputError(f"{name} is {tuple(whole.shape)} in the checkpoint and {self._wholes[name]} in the model")
        return own_rows(self._cuts[name].part(whole, self._tensor.index, self._tensor.count), self._sharers)
