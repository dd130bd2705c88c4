"""Memory that a stage is estimated to need, from its declaration, and which settings to change when it does not fit."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Any

GIB = 2.0**30
SPARED = 0.05
"""Share of memory that an estimate leaves free: for fragmentation, library buffers, and what it does not model."""
LEAST_HELP = 0.01
"""Smallest share of the needed memory that a knob must save to be worth naming."""


class MemoryKind(StrEnum):
    """Kind of memory; values are readable text."""

    GPU = "on each GPU"
    HOST = "on the host of a node"
    """Host memory of all processes on a node with GPUs."""
    NODE = "on a node"
    """Memory of all processes on a node without GPUs."""


class Moment(StrEnum):
    """When memory is taken, as readable text: memory needed in one moment is free in the other."""

    PASS = "during a training pass"
    BETWEEN = "between training passes"


@dataclass(frozen=True)
class Need:
    """One thing that takes memory in every process."""

    name: str
    """Readable name: "weights", "activations"."""
    size: float
    """Bytes."""
    on_host: bool = False
    """Whether it is in host memory even if the process computes on a GPU."""
    moment: Moment | None = None
    """When it is allocated; None: always."""

    def is_at(self, place: MemoryKind, moment: Moment) -> bool:
        """Return whether it takes memory of this kind at this moment."""
        there = place is MemoryKind.NODE or self.on_host == (place is MemoryKind.HOST)
        return there and self.moment in (None, moment)


@dataclass(frozen=True)
class Knob:
    """A setting that may lower the memory needed."""

    words: str
    """The setting as a person writes it: "lora: {rank: 8}"."""
    turned: Callable[[], Iterable[Need]]
    """Returns the needs with the setting applied."""


@dataclass(frozen=True)
class MemoryEstimate:
    """Memory of one process of a stage, by moment."""

    needs: tuple[Need, ...]
    processes: int
    """Processes on each node."""
    model: Any = None
    """Sizes of the model that the stage makes, for downstream stages."""
    knobs: tuple[Knob, ...] = ()
    """Candidate settings; re-estimating with each shows which ones help."""
    refusal: str | None = None
    """Why the model cannot be trained with these settings, and what to do."""

    def beside(self, further: Iterable[Need]) -> MemoryEstimate:
        """Return the estimate plus needs in addition to the stage's own, which no knob changes."""
        more = tuple(further)
        if not more:
            return self
        knobs = tuple(replace(knob, turned=partial(_with, knob.turned, more)) for knob in self.knobs)
        return replace(self, needs=(*self.needs, *more), knobs=knobs)

    def bytes_at(self, place: MemoryKind, moment: Moment) -> float:
        """Return the bytes of a kind of memory at a moment."""
        return self._bytes(self.needs, place, moment)

    def peak(self, place: MemoryKind) -> Moment:
        """Return the moment that needs the most."""
        return max(Moment, key=lambda moment: self.bytes_at(place, moment))

    def bytes(self, place: MemoryKind) -> float:
        """Return the bytes of a kind of memory at the worst moment."""
        return self.bytes_at(place, self.peak(place))

    def parts(self, place: MemoryKind) -> dict[str, float]:
        """Return the bytes of each need of one process at the worst moment, largest first."""
        moment = self.peak(place)
        found = sorted((need for need in self.needs if need.is_at(place, moment)), key=lambda need: -need.size)
        return {need.name: need.size for need in found}

    def parts_in_words(self, place: MemoryKind) -> str:
        """Return `parts` as text in GiB, without those of at most 0.001 GiB."""
        return ", ".join(f"{name} {size / GIB:.2g}" for name, size in self.parts(place).items() if size > GIB / 1000)

    def when(self, place: MemoryKind) -> str:
        """Return the worst moment as text, or "" if all moments need the same."""
        sizes = {self.bytes_at(place, moment) for moment in Moment}
        return f" {self.peak(place)}" if len(sizes) > 1 else ""

    def advice(
        self, place: MemoryKind, limit: float = 0.0, count: int = 4, *, moments: Collection[Moment] = tuple(Moment)
    ) -> str:
        """Return which settings to change, most helpful first; savings below the `limit` do not count.

        `moments` are those at which memory is short.
        """
        excess = {moment: self.bytes_at(place, moment) - limit for moment in moments}
        helpful = [(self._help(knob, place, excess), knob.words) for knob in self.knobs]
        ordered = sorted(helpful, key=lambda found: -found[0])  # equal ones stay in order: the cheapest first
        words = "; ".join(words for saved, words in ordered[:count] if saved > LEAST_HELP * self.bytes(place))
        return f"turn {words}, or take a larger pool" if words else "take a larger pool"

    def _help(self, knob: Knob, place: MemoryKind, excess: Mapping[Moment, float]) -> float:
        """Return the bytes of the `excess` that a knob saves, summed over moments."""
        needs = tuple(knob.turned())
        saved = {moment: self.bytes_at(place, moment) - self._bytes(needs, place, moment) for moment in excess}
        return sum(min(saved[moment], max(0.0, excess[moment])) for moment in excess)

    def _bytes(self, needs: Iterable[Need], place: MemoryKind, moment: Moment) -> float:
        size = sum(need.size for need in needs if need.is_at(place, moment))
        return size if place is MemoryKind.GPU else self.processes * size


def _with(turned: Callable[[], Iterable[Need]], more: tuple[Need, ...]) -> tuple[Need, ...]:
    return (*turned(), *more)


def place_of_shortage(*, gpus: int, on_gpu: bool) -> MemoryKind:
    """Return which memory ran out: a GPU's, the host's on a node with GPUs, or that of a node without any."""
    if not gpus:
        return MemoryKind.NODE
    return MemoryKind.GPU if on_gpu else MemoryKind.HOST
