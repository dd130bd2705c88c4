"""Ranks: the processes that train one model together, each with the same seeds and the same data.

Ranks of one tensor or context group compute the same batches together: they are one data rank, and have the same rows,
random draws and order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from torch import distributed
from torch.distributed import ProcessGroup

from components.runtime.system.mesh import DATA, SHARDS, mesh_along

T = TypeVar("T")


@dataclass(frozen=True)
class Ranks:
    """This process among those that divide work; the only one without a process group."""

    index: int = 0
    count: int = 1
    group: ProcessGroup | None = None
    """Those that divide the work; None for all processes."""
    everyone: Ranks | None = None
    """All processes, where these are some of them."""

    @property
    def all(self) -> Ranks:
        """Return all processes: to divide work that no model takes part in, and to agree."""
        return self.everyone or self

    @property
    def first(self) -> bool:
        """Return whether this is the process that writes: checkpoints, outputs, lineage."""
        return self.all.index == 0

    def gather(self, value: T) -> list[T]:
        """Return the values of all ranks in order, on every rank; all ranks must call it."""
        if self.count == 1:
            return [value]
        found: list[Any] = [None] * self.count
        distributed.all_gather_object(found, value, group=self.group)
        return found

    def first_says(self, compute: Callable[[], T]) -> T:
        """Compute on the first process and return the result on every one; all processes must call it."""
        if self.all.count == 1:
            return compute()
        said: list[Any] = [compute() if self.first else None]
        distributed.broadcast_object_list(said, src=0)
        return said[0]

    def share(self, items: Sequence[T]) -> Sequence[T]:
        """Return this rank's items: every `count`-th one."""
        return items[self.index :: self.count]

    def together(self, shares: Sequence[Sequence[T]]) -> list[T]:
        """Return the items in their original order from the shares that `share` gave each rank."""
        total = sum(map(len, shares))
        return [shares[at % self.count][at // self.count] for at in range(total)]

    def rounds(self, items: Sequence[T]) -> Iterator[tuple[T, bool]]:
        """Yield this rank's items and whether they count; every rank has the same number of rounds.

        A rank that runs out yields the last of all items, not counted: collectives need all ranks. Callers put a
        cheap one last.
        """
        for start in range(0, len(items), self.count):
            own = start + self.index
            yield (items[own], True) if own < len(items) else (items[-1], False)


def current_ranks() -> Ranks:
    """Return this process's data rank in torch's process group, which the runtime creates before a stage runs."""
    return ranks_along(DATA)


def ranks_along(axis: str) -> Ranks:
    """Return this process among those that differ in their place on one axis of the mesh alone.

    Without a mesh each process is a data rank of its own.
    """
    if not (distributed.is_available() and distributed.is_initialized()):
        return Ranks()
    everyone, along = Ranks(distributed.get_rank(), distributed.get_world_size()), mesh_along(axis)
    if along is None:
        return everyone if axis in (DATA, SHARDS) else Ranks(everyone=everyone)
    return Ranks(along.get_local_rank(), along.size(), along.get_group(), everyone)
