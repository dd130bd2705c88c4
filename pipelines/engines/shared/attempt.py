"""An attempt at a job as its engine sees it: its time limit, its launcher's events, how it ended."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from components.contract.terminal import short_line
from components.runtime.job.process import FAILED, READY, REFUSED
from components.runtime.system.ends import cause_of_end

STARTUP_SECONDS = 1800
"""Time for starting a process, container or pod, such as for pulling an image of many gigabytes onto a fresh node,
beside the stage's own limit; Airflow's default is two minutes."""
SHOWN_OF_A_LOG = 300
"""Characters of a log's last line in a message."""
READ_OF_A_LOG = 4 * SHOWN_OF_A_LOG

OnEvent = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Ended:
    """How an attempt ended."""

    code: int
    error: str | None = None
    """Error message; None on success."""
    retryable: bool = False
    silent: bool = False
    """Whether the process ended without recording its failure: killed, or timed out."""
    left: bool = False
    """Whether it ended since its run goes on elsewhere: that is no failure, even if the move was taken back since."""


class Limit:
    """Time limit of a stage, from when its process is ready; starting has its own, generous limit."""

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds or 0.0
        self._end = time.monotonic() + STARTUP_SECONDS + seconds if seconds else None

    def begin(self) -> None:
        """Start counting: the process is ready."""
        if self._end is not None:
            self._end = time.monotonic() + self.seconds

    @property
    def is_over(self) -> bool:
        """Return whether the time is up; always False without a limit."""
        return self._end is not None and time.monotonic() > self._end


class Events:
    """Events of a launcher while its job runs: forwards progress, and keeps what matters for the job's end."""

    def __init__(self, on_event: OnEvent, limit: Limit | None = None) -> None:
        """`limit` counts from when the launcher is ready."""
        self._on_event, self._limit = on_event, limit
        self.failure: str | None = None
        self.finished = self.left = False

    def take(self, event: dict[str, Any]) -> None:
        """Handle one event."""
        if event["event"] == READY:
            if self._limit is not None:
                self._limit.begin()
            return
        self.failure = event["error"] if event["event"] in ("failed", "left") else self.failure
        self.finished = self.finished or event["event"] == "finished"
        self.left = event["event"] == "left"
        self._on_event(event)

    def ended(self, code: int, *, last_line: str = "", log: str = "") -> Ended:
        """Return how the launcher's process ended."""
        end = ended(code, finished=self.finished, failure=self.failure, last_line=last_line, log=log)
        return replace(end, left=self.left and end.code != 0)


def ended(code: int, *, finished: bool, failure: str | None, last_line: str = "", log: str = "") -> Ended:
    """Return how a process ended that reported a `failure`, or that the stage is `finished`.

    `last_line` of its output and the location of the whole `log` explain a process that reported nothing.
    """
    if code == 0 and finished:  # a component may end its process with code 0 before it is done
        return Ended(0)
    silent = failure is None
    if failure is None:
        parts = [f"its process {cause_of_end(code)}", f"log: {log}" if log else ""]
        parts.append(f"last line: {short_line(last_line, SHOWN_OF_A_LOG)}" if last_line else "")
        failure = "; ".join(filter(None, parts))
    return Ended(code or FAILED, failure, retryable=code != REFUSED, silent=silent)


def timed_out(seconds: float) -> Ended:
    """Return the end of an attempt that took longer than its stage's timeout."""
    return Ended(124, f"took longer than its timeout of {seconds:g} s", retryable=True, silent=True)


def last_line(log: Path) -> str:
    """Return the last non-empty line of a log; empty if the log could not be opened."""
    if not log.exists():
        return ""
    with log.open("rb") as stream:
        stream.seek(max(0, log.stat().st_size - READ_OF_A_LOG))
        lines = stream.read().decode(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
