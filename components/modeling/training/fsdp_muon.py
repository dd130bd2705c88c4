"""Muon over the shards of FSDP2: each matrix is whole on one rank for as long as it takes to orthogonalise it.

As many matrices as there are ranks go at a time: an all-to-all gives each rank one of them whole, and another one takes
the shards of the result back (Ahn et al. 2025, "Dion", arXiv:2504.05295, section 4, whose code does the same for Muon).
Each rank then multiplies 1 / ranks of all matrices. Momentum and weights stay sharded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, distributed, nn

from components.modeling.ranks import ranks_along
from components.modeling.training.muon import Muon, Scale, iteration_dtype, orthogonalize, step_scale
from components.runtime.system.mesh import SHARDS


@dataclass(frozen=True)
class Whole:
    """The matrix that a shard is a part of."""

    rows: int
    columns: int
    blocks: tuple[int, ...]
    """Rows of each of the matrices that it stacks."""

    def shard_rows(self, ranks: int) -> list[int]:
        """Return how many rows each rank has, as fully_shard cuts them."""
        most = -(-self.rows // ranks)
        return [max(0, min(most, self.rows - rank * most)) for rank in range(ranks)]


class ShardedMuon(Muon):
    """Muon whose parameters are this rank's rows of matrices; a rank may have none of some."""

    def __init__(
        self,
        shards: Mapping[nn.Parameter, Whole],
        *,
        lr: float,
        momentum: float,
        weight_decay: float,
        scale: Scale,
    ) -> None:
        """All ranks give the shards of the same matrices in the same order."""
        super().__init__(list(shards), lr=lr, momentum=momentum, weight_decay=weight_decay, scale=scale)
        self._wholes = dict(shards)
        sharers = ranks_along(SHARDS)
        self._rank, self._ranks, self._group = sharers.index, sharers.count, sharers.group

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        """Update all shards that have a gradient; all ranks must call it."""
        if closure is not None:
            raise ValueError("Muon.step takes no closure")
        for group in self.param_groups:
            ready = [parameter for parameter in group["params"] if parameter.grad is not None]
            for some in self._batches(ready):
                updates = [self._nesterov(parameter, group["momentum"]) for parameter in some]
                directions = self._directions([self._wholes[parameter] for parameter in some], updates)
                for parameter, direction in zip(some, directions, strict=True):
                    parameter.mul_(1 - group["lr"] * group["weight_decay"])
                    parameter.sub_(direction.mul_(group["lr"] * self._row_scales(parameter)))

    def _batches(self, parameters: Sequence[nn.Parameter]) -> Iterator[list[nn.Parameter]]:
        """Yield as many matrices as there are ranks, of nearly one size."""
        ordered = sorted(parameters, key=lambda p: -self._wholes[p].rows * self._wholes[p].columns)
        for start in range(0, len(ordered), self._ranks):
            yield ordered[start : start + self._ranks]

    def _directions(self, wholes: Sequence[Whole], updates: Sequence[Tensor]) -> list[Tensor]:
        """Return this rank's rows of the orthogonalised updates; the n-th rank has the n-th of them whole."""
        dtype = iteration_dtype(updates[0].device)
        own = wholes[self._rank] if self._rank < len(wholes) else None
        to_owners = [update.numel() for update in updates] + [0] * (self._ranks - len(wholes))
        to_shards = [rows * own.columns for rows in own.shard_rows(self._ranks)] if own else [0] * self._ranks
        flat = torch.cat([update.flatten().to(dtype) for update in updates])
        mine = _exchange(flat, to_owners, to_shards, self._group)
        if own:
            mine = _orthogonal(mine.view(own.rows, own.columns), own.blocks, dtype).flatten()
        back = _exchange(mine, to_shards, to_owners, self._group).to(updates[0].dtype).split(to_owners[: len(wholes)])
        return [part.view_as(update) for part, update in zip(back, updates, strict=True)]

    def _row_scales(self, parameter: nn.Parameter) -> Tensor:
        """Return [rows of the shard, 1] the factor on the learning rate."""
        whole = self._wholes[parameter]
        scales = [step_scale(rows, whole.columns, self._scale) for rows in whole.blocks]
        every = torch.repeat_interleave(torch.tensor(scales), torch.tensor(whole.blocks))
        start = sum(whole.shard_rows(self._ranks)[: self._rank])
        return every[start : start + parameter.shape[0]].unsqueeze(1).to(parameter)


def _exchange(
    sent: Tensor, sizes: Sequence[int], received: Sequence[int], group: distributed.ProcessGroup | None
) -> Tensor:
    """Send `sizes[r]` elements to each rank r and return what comes, `received[r]` from each."""
    found = sent.new_empty(sum(received))
    distributed.all_to_all_single(found, sent, list(received), list(sizes), group=group)
    return found


def _orthogonal(matrix: Tensor, blocks: Sequence[int], dtype: torch.dtype) -> Tensor:
    return torch.cat([orthogonalize(block.unsqueeze(0), dtype=dtype)[0] for block in matrix.split(list(blocks))])
