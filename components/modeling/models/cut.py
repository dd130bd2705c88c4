"""How a parameter is parted among tensor ranks, and put together again.

Shapes: T tensor ranks; R and K rows and columns of the whole parameter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor


class Run(NamedTuple):
    """Rows of a rank's part that lie together in the whole parameter."""

    own: int
    """The first of them in the part."""
    whole: int
    """The first of them in the whole."""
    rows: int
    part: int
    parts: int
    """How many ranks have different ones; fewer than all where some have copies."""
    first: bool
    """Whether no rank before this one has them, too."""


@dataclass(frozen=True)
class Cut:
    """What each tensor rank has of one parameter; the default: all of it."""

    blocks: tuple[tuple[int, int], ...] = ()
    """Rows of each of the matrices that it stacks, and in how many parts they are cut. Fewer parts than ranks: as many
    neighbours have copies. (): no rows are cut."""
    columns: bool = False
    """Whether its columns are cut."""
    summed: bool = False
    """Whether a rank's gradient of what all have is part of a sum."""

    @property
    def alike(self) -> bool:
        """Return whether all ranks have the whole parameter."""
        return not self.blocks and not self.columns

    def runs(self, rows: int, rank: int, ranks: int) -> Iterator[Run]:
        """Yield where a rank's rows are in the whole parameter of `rows`, in order."""
        if not self.blocks:
            part, parts = (rank, ranks) if self.columns else (0, 1)
            yield Run(0, 0, rows, part, parts, self.columns or rank == 0)
            return
        own = start = 0
        for total, parts in self.blocks:
            part, copy = divmod(rank, ranks // parts)
            size = total // parts
            yield Run(own, start + part * size, size, part, parts, copy == 0)
            own, start = own + size, start + total

    def part(self, whole: Tensor, rank: int, ranks: int) -> Tensor:
        """Return a rank's part of the whole parameter, [R, K] or [R]."""
        if self.columns:
            return whole.chunk(ranks, 1)[rank].contiguous()
        if not self.blocks:
            return whole
        return torch.cat([whole[run.whole : run.whole + run.rows] for run in self.runs(len(whole), rank, ranks)])

    def joined(self, parts: Sequence[Tensor]) -> Tensor:
        """Return the whole parameter of all ranks' parts."""
        if self.columns:
            return torch.cat(list(parts), 1)
        if not self.blocks:
            return parts[0]
        whole = parts[0].new_empty(self.shape(parts[0].shape, len(parts)))
        for rank, part in enumerate(parts):
            for run in self.runs(len(whole), rank, len(parts)):
                whole[run.whole : run.whole + run.rows] = part[run.own : run.own + run.rows]
        return whole

    def shape(self, part: Sequence[int], ranks: int) -> tuple[int, ...]:
        """Return the shape of the whole parameter from that of a part."""
        if self.columns:
            return (part[0], part[1] * ranks)
        return (sum(rows for rows, _ in self.blocks), *part[1:]) if self.blocks else tuple(part)
