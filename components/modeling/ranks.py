"""Ranks: the processes that train one model together, each with the same seeds and the same data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from torch import distributed

T = TypeVar("T")


@dataclass(frozen=True)
class Ranks:
    """This process among those that train together; the only one without a process group."""

    index: int = 0
    count: int = 1

    @property
    def first(self) -> bool:
        """Return whether this is the rank that writes: checkpoints, outputs, lineage."""
        return self.index == 0

    def gather(self, value: T) -> list[T]:
        """Return the values of all ranks in order, on every rank; all ranks must call it."""
        if self.count == 1:
            return [value]
        found: list[Any] = [None] * self.count
        distributed.all_gather_object(found, value)
        return found

    def first_says(self, compute: Callable[[], T]) -> T:
        """Compute on the first rank and return the result on every rank; all ranks must call it."""
        if self.count == 1:
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
    """Return this process's rank in torch's process group, which the runtime creates before a stage runs."""
    if not (distributed.is_available() and distributed.is_initialized()):
        return Ranks()
    return Ranks(distributed.get_rank(), distributed.get_world_size())
