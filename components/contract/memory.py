"""What a stage will take in memory, as far as its declaration can tell, and what to turn when that does not fit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Any

GIB = 2.0**30
SPARED = 0.05
"""Share of a memory that an estimate leaves free: for fragments, buffers of libraries, and what it does not know."""
LEAST_HELP = 0.01
"""Share of what is needed that a knob saves at least if it is worth naming."""


class MemoryKind(StrEnum):
    """Where memory is, in words for people."""

    GPU = "on each GPU"
    HOST = "on the host of a node"
    """Beside what is on GPUs, of all processes on the node."""
    NODE = "on a node"
    """One without GPUs, of all processes."""


class Moment(StrEnum):
    """When memory is taken, in words for people: what one of them needs is free in the other."""

    PASS = "during a training pass"
    BETWEEN = "between training passes"


@dataclass(frozen=True)
class Need:
    """One thing that takes memory in every process."""

    name: str
    """What it is, in words: "weights", "activations"."""
    size: float
    """Bytes."""
    on_host: bool = False
    """Whether it lies in the host's memory even where the process computes on a GPU."""
    moment: Moment | None = None
    """When it is there; None: all the time."""

    def is_at(self, place: MemoryKind, moment: Moment) -> bool:
        """Return whether it takes memory there and then."""
        there = place is MemoryKind.NODE or self.on_host == (place is MemoryKind.HOST)
        return there and self.moment in (None, moment)


@dataclass(frozen=True)
class Knob:
    """A setting that may lower what is needed."""

    words: str
    """The setting as a person writes it: "lora: {rank: 8}"."""
    turned: Callable[[], Iterable[Need]]
    """Returns what is needed with it."""


@dataclass(frozen=True)
class MemoryEstimate:
    """What one process of a stage takes, moment by moment."""

    needs: tuple[Need, ...]
    processes: int
    """Processes on each node."""
    model: Any = None
    """Sizes of the model that the stage makes, for the stages behind it."""
    knobs: tuple[Knob, ...] = ()
    """What may be turned; those that help are found by estimating anew."""

    def beside(self, further: Iterable[Need]) -> MemoryEstimate:
        """Return the estimate with what takes memory beside the stage's own, whatever is turned."""
        more = tuple(further)
        if not more:
            return self
        knobs = tuple(replace(knob, turned=partial(_with, knob.turned, more)) for knob in self.knobs)
        return replace(self, needs=(*self.needs, *more), knobs=knobs)

    def bytes_at(self, place: MemoryKind, moment: Moment) -> float:
        """Return the bytes at a place at a moment."""
        return self._bytes(self.needs, place, moment)

    def peak(self, place: MemoryKind) -> Moment:
        """Return the moment when most is needed."""
        return max(Moment, key=lambda moment: self.bytes_at(place, moment))

    def bytes(self, place: MemoryKind) -> float:
        """Return the bytes at a place at the worst moment."""
        return self.bytes_at(place, self.peak(place))

    def parts(self, place: MemoryKind) -> dict[str, float]:
        """Return the bytes of each need in one process at the worst moment, the largest first."""
        moment = self.peak(place)
        found = sorted((need for need in self.needs if need.is_at(place, moment)), key=lambda need: -need.size)
        return {need.name: need.size for need in found}

    def parts_in_words(self, place: MemoryKind) -> str:
        """Return the same in GiB, without crumbs."""
        return ", ".join(f"{name} {size / GIB:.2g}" for name, size in self.parts(place).items() if size > GIB / 1000)

    def when(self, place: MemoryKind) -> str:
        """Return the worst moment in words, or nothing where all moments need the same."""
        sizes = {self.bytes_at(place, moment) for moment in Moment}
        return f" {self.peak(place)}" if len(sizes) > 1 else ""

    def advice(self, place: MemoryKind, limit: float = 0.0, count: int = 4) -> str:
        """Return what to turn, what helps most first: no knob helps by more than is needed beyond the `limit`."""
        excess = {moment: self.bytes_at(place, moment) - limit for moment in Moment}
        helpful = [(self._help(knob, place, excess), knob.words) for knob in self.knobs]
        ordered = sorted(helpful, key=lambda found: -found[0])  # equal ones stay in order: the cheapest first
        words = "; ".join(words for saved, words in ordered[:count] if saved > LEAST_HELP * self.bytes(place))
        return f"turn {words}, or take a larger pool" if words else "take a larger pool"

    def _help(self, knob: Knob, place: MemoryKind, excess: Mapping[Moment, float]) -> float:
        """Return the bytes of the `excess` that a knob saves, of all moments."""
        needs = tuple(knob.turned())
        saved = {moment: self.bytes_at(place, moment) - self._bytes(needs, place, moment) for moment in Moment}
        return sum(min(saved[moment], max(0.0, excess[moment])) for moment in Moment)

    def _bytes(self, needs: Iterable[Need], place: MemoryKind, moment: Moment) -> float:
        size = sum(need.size for need in needs if need.is_at(place, moment))
        return size if place is MemoryKind.GPU else self.processes * size


def _with(turned: Callable[[], Iterable[Need]], more: tuple[Need, ...]) -> tuple[Need, ...]:
    return (*turned(), *more)


def place_of_shortage(*, gpus: int, on_gpu: bool) -> MemoryKind:
    """Return where memory ran out: on a GPU, on the host of some, or on a node without any."""
    if not gpus:
        return MemoryKind.NODE
    return MemoryKind.GPU if on_gpu else MemoryKind.HOST
