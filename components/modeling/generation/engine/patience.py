"""How long a stage waits for its engine: by what the engine gets done, not by the clock alone."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from components.runtime.system.waits import seconds_of

SECONDS = "POSTTRAIN_ENGINE_SECONDS"
"""How long an engine may show no sign of life."""
DEFAULT = 300.0
BUSY = 3
"""How many times as long an engine may use the CPU without getting anything done, as in a collective that hangs."""
LOOKS = 20
"""Looks at the signs of life within that time."""


def patience(environ: Mapping[str, str] = os.environ) -> float:
    """Return how many seconds an engine may show no sign of life. Raises InputError for an invalid number."""
    return seconds_of(SECONDS, DEFAULT, environ)


class Signs(NamedTuple):
    """What shows that a process lives."""

    done: tuple[int, ...]
    """Grows when it gets something done: its pulse, the size of its log."""
    cpu_seconds: float


class Watch:
    """Watches a process from one call to its reply.

    Only the time in which this process runs counts: a laptop that sleeps, or a job that is stopped and continued as a
    whole, makes no engine stuck.
    """

    def __init__(self, signs: Callable[[], Signs], seconds: float) -> None:
        self.every = min(1.0, seconds / LOOKS)
        """Seconds from one look to the next."""
        self._signs, self._seconds = signs, seconds
        self._last, self._at = signs(), time.monotonic()
        self._idle = self._busy = 0.0

    def complaint(self) -> str | None:
        """Look once; return why the process counts as stuck, or None."""
        found, now = self._signs(), time.monotonic()
        passed = min(now - self._at, 2 * self.every)
        if found.done != self._last.done:
            self._idle = self._busy = 0.0
        else:
            self._idle = 0.0 if found.cpu_seconds != self._last.cpu_seconds else self._idle + passed
            self._busy += passed
        self._last, self._at = found, now
        if self._idle >= self._seconds:
            return f"showed no sign of life for {self._seconds:g} s"
        if self._busy >= BUSY * self._seconds:
            return f"was busy for {BUSY * self._seconds:g} s without getting anything done"
        return None
