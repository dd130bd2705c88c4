"""What confines one run: the two kinds are `namespaces` and `domain`."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

SIZES = ("VmSize", "VmData", "VmExe", "RssAnon", "RssShmem", "VmPTE", "VmSwap", "Threads")


@dataclass(frozen=True)
class Started:
    """A run that has begun: its process as the server knows it, and the reading ends of its pipes."""

    pid: int
    pidfd: int
    answer: int
    out: int
    status: int

    def close(self) -> None:
        """Close the descriptors."""
        for descriptor in (self.pidfd, self.answer, self.out, self.status):
            if descriptor >= 0:
                os.close(descriptor)


class Cell:
    """Starts runs and ends them whole; one at a time."""

    def start(self, body: Callable[[], NoReturn], limits: dict[str, Any]) -> Started:
        """Fork a confined process and call `body` in it."""
        raise NotImplementedError

    def end(self, started: Started) -> int | str:
        """End the run and all that it started; return its wait status, or a text if it could not be confined."""
        raise NotImplementedError

    def written(self, limits: dict[str, Any]) -> str:
        """Return which limit on writing a run exceeds; nothing where the kernel enforces it."""
        return ""

    def base(self) -> dict[str, int]:
        """Return what the server itself holds, in bytes."""
        return sizes(os.getpid())


def sizes(pid: int) -> dict[str, int]:
    """Return a process's sizes in bytes (Threads: a count); FileNotFoundError or ProcessLookupError when it is gone."""
    found = dict.fromkeys(SIZES, 0)
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name in found:
            words = rest.split()
            found[name] = int(words[0]) * (1024 if len(words) > 1 else 1)
    return found


def pipes(count: int) -> list[int]:
    """Return the reading and writing ends of `count` pipes, in turn."""
    return [end for _ in range(count) for end in os.pipe()]
