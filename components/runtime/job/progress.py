"""Structured progress events: what a terminal or an orchestrator shows while a job runs."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from threading import Lock
from typing import Any, TextIO

from components.contract.terminal import visible_line
from components.runtime.alarms.words import event_lines

Sink = Callable[[dict[str, Any]], None]
"""Takes one event: {"event", "stage", "time", ...}."""

MIN_SECONDS_BETWEEN_PROGRESS = 0.2
SECONDS_BETWEEN_LINES = 10.0
"""Interval of progress lines in a log."""


class Progress:
    """Sends a job's events to a sink; progress is rate limited, everything else is passed on at once."""

    def __init__(self, stage: str, sink: Sink) -> None:
        self.stage = stage
        self._sink, self._one_at_a_time = sink, Lock()
        self._last = 0.0

    def send(self, event: str, **fields: Any) -> None:
        """Send one event now; any thread may."""
        with self._one_at_a_time:
            self._sink({"event": event, "stage": self.stage, "time": time.time(), **fields})

    def step(self, done: int, total: int, metrics: dict[str, float]) -> None:
        """Send the stage's progress, at most five times a second; the last step is never dropped."""
        now = time.monotonic()
        if done < total and now - self._last < MIN_SECONDS_BETWEEN_PROGRESS:
            return
        self._last = now
        self.send("progress", done=done, total=total, metrics=metrics)


def json_lines(stream: TextIO = sys.stdout) -> Sink:
    """Return a sink that writes one JSON object a line, with metrics in the order in which they were logged."""

    def write(event: dict[str, Any]) -> None:
        stream.write(json.dumps(event) + "\n")
        stream.flush()

    return write


def text_lines(stream: TextIO = sys.stdout) -> Sink:
    """Return a sink that writes lines for people, for a process whose output is its log."""
    last = -SECONDS_BETWEEN_LINES

    def write(event: dict[str, Any]) -> None:
        nonlocal last
        if event["event"] == "alarm":
            stream.write("".join(f"{line}\n" for line in event_lines(event)))
            stream.flush()
            return
        fields = {name: value for name, value in event.items() if name not in ("event", "stage", "time")}
        if event["event"] == "progress":
            done, total, now = fields.pop("done"), fields.pop("total"), time.monotonic()
            if done < total and now - last < SECONDS_BETWEEN_LINES:
                return
            last, fields = now, {"": f"{done}/{total}", **fields}
        stream.write(visible_line("  ".join([event["event"], *_words(fields)])) + "\n")
        stream.flush()

    return write


def _words(fields: dict[str, Any]) -> Iterator[str]:
    """Yield `name value` for every field that is set; metrics one by one."""
    for name, value in fields.items():
        if isinstance(value, dict):
            yield from _words(value)
        elif value is not None:
            yield f"{name} {value:.4g}".strip() if isinstance(value, float) else f"{name} {value}".strip()
