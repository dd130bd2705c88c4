"""What a stage will take in memory, as far as its declaration can tell, and what to turn when that does not fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

GIB = 2.0**30


@dataclass(frozen=True)
class Need:
    """One thing that takes memory in every process."""

    name: str
    """What it is, in words: "weights", "activations"."""
    size: float
    """Bytes."""
    knob: str = ""
    """What makes it smaller, as a person would set it."""
    on_host: bool = False
    """Whether it lies in the host's memory even where the process computes on a GPU."""


@dataclass(frozen=True)
class MemoryEstimate:
    """What one process of a stage takes at its peak."""

    needs: tuple[Need, ...]
    processes: int
    """Processes on each node."""
    model: Any = None
    """Sizes of the model that the stage makes, for the stages behind it."""

    def device_bytes(self, *, gpu: bool) -> float:
        """Return the bytes on one GPU, or without any those of all processes on a node."""
        if gpu:
            return sum(need.size for need in self.needs if not need.on_host)
        return self.processes * sum(need.size for need in self.needs)

    def host_bytes(self) -> float:
        """Return the bytes in the host's memory, of all processes on a node, beside what is on GPUs."""
        return self.processes * sum(need.size for need in self.needs if need.on_host)

    def parts(self) -> str:
        """Return the needs in words, the largest first."""
        ordered = sorted(self.needs, key=lambda need: -need.size)
        return ", ".join(f"{need.name} {need.size / GIB:.2g}" for need in ordered if need.size > GIB / 1000)

    def knobs(self) -> Iterator[str]:
        """Yield what to turn, for the largest need first, each once."""
        seen = set()
        for need in sorted(self.needs, key=lambda need: -need.size):
            if need.knob and need.knob not in seen:
                seen.add(need.knob)
                yield need.knob


def knobs_in_words(estimate: MemoryEstimate, count: int = 3) -> str:
    """Return the few knobs that help most."""
    return "; ".join([*estimate.knobs()][:count])
