"""A job as a subprocess of its engine, which reads its output and can kill it as a whole.

It has its own session, so that all of it can be killed at once; with the launcher's flag --parent it also ends with
the process that started it, however that ends.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from components.runtime.system.code import ROOT
from pipelines.engines.shared.attempt import Ended, Events, OnEvent

READ_BYTES = 1 << 16

OnLine = Callable[[str], None]


class StageProcess:
    """One process whose output is read line by line."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], folder: Path = ROOT) -> None:
        self._process = subprocess.Popen(
            command,
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """Return the process id, which is also the session id."""
        return self._process.pid

    def follow(self, on_event: OnEvent, on_line: OnLine) -> Ended:
        """Forward events and other lines until the process ends; return how it ended."""
        events, last = Events(on_event), ""
        for line in self._lines():
            event = _event(line)
            if event is not None:
                events.take(event)
                continue
            last = line if line.strip() else last
            on_line(line)
        return events.ended(self._process.wait(), last_line=last)

    def kill(self) -> None:
        """Kill the whole session; a stage is resumable at any instant, so no SIGTERM is needed."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        self._process.wait()

    def _lines(self) -> Any:
        """Yield the lines of both outputs as they arrive; undecodable bytes are escaped."""
        assert self._process.stdout is not None and self._process.stderr is not None
        rest = {self._process.stdout: b"", self._process.stderr: b""}
        with selectors.DefaultSelector() as selector:
            for output in rest:
                selector.register(output, selectors.EVENT_READ)
            while selector.get_map():
                for key, _ in selector.select():
                    stream: Any = key.fileobj
                    data = os.read(stream.fileno(), READ_BYTES)
                    *lines, rest[stream] = (rest[stream] + data).split(b"\n")
                    if not data:
                        selector.unregister(stream)
                        lines, rest[stream] = ([rest[stream]] if rest[stream] else []), b""
                    for line in lines:
                        yield line.decode(errors="backslashreplace").rstrip("\r")


def _event(line: str) -> dict[str, Any] | None:
    """Return a line's progress event, or None for output of a stage or library."""
    if not line.startswith('{"'):
        return None
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) and {"event", "stage", "time"} <= value.keys() else None
