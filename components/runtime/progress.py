"""Structured progress events: what a terminal or an orchestrator shows while a job runs."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any, TextIO

Sink = Callable[[dict[str, Any]], None]
"""Takes one event: {"event", "stage", "time", ...}."""

MIN_SECONDS_BETWEEN_PROGRESS = 0.2


class Progress:
    """Sends a job's events to a sink; floods of progress are thinned, everything else is passed on at once."""

    def __init__(self, stage: str, sink: Sink) -> None:
        self.stage = stage
        self._sink = sink
        self._last = 0.0

    def send(self, event: str, **fields: Any) -> None:
        """Send one event now."""
        self._sink({"event": event, "stage": self.stage, "time": time.time(), **fields})

    def step(self, done: int, total: int, metrics: dict[str, float]) -> None:
        """Send how far the stage is, at most five times a second; the last step is never dropped."""
        now = time.monotonic()
        if done < total and now - self._last < MIN_SECONDS_BETWEEN_PROGRESS:
            return
        self._last = now
        self.send("progress", done=done, total=total, metrics=metrics)


def json_lines(stream: TextIO = sys.stdout) -> Sink:
    """Return a sink that writes one JSON object a line, as orchestrators collect it."""

    def write(event: dict[str, Any]) -> None:
        stream.write(json.dumps(event, sort_keys=True) + "\n")
        stream.flush()

    return write
