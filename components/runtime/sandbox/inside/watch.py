"""Watching one run: its answer, output, time and memory."""

from __future__ import annotations

import os
import select
import signal
import time
from dataclasses import dataclass
from typing import Any

from components.runtime.sandbox.inside import run
from components.runtime.sandbox.inside.cell import Cell, Started, sizes

FIRST_LOOK_SECONDS, LOOK_SECONDS, MOST_SECONDS = 0.01, 0.02, 0.25
SHARE = 10
"""Checks take at most a tenth of the time, so that many sandboxes on few cores leave the cores to the runs."""
CHUNK = 1 << 16
KINDS = {run.VALUE: "value", run.RAISED: "raised", run.MEMORY: "memory", run.OUTPUT: "output"}


@dataclass
class Outcome:
    """Outcome of a run, for the reply."""

    status: str
    detail: str = ""
    value: bytes = b""
    stdout: bytes = b""
    seconds: float = 0.0


class ParentGone(Exception):
    """No one waits for the answer any more."""


class Watch:
    """Follows one run to its answer or its end."""

    def __init__(self, cell: Cell, started: Started, limits: dict[str, Any], control: int) -> None:
        self._cell, self._started, self._limits = cell, started, limits
        self._most = int(limits["output_bytes"])
        self._answer, self._out = bytearray(), bytearray()
        self._began = time.monotonic()
        self._base = cell.base()
        self._poll = select.poll()
        self._control = control
        self._poll.register(control, 0)  # only that it was hung up
        for descriptor in (started.answer, started.out, started.pidfd):
            os.set_blocking(descriptor, False)
            self._poll.register(descriptor, select.POLLIN)

    def outcome(self) -> Outcome:
        """Return the outcome of the run, after it and everything it started have ended."""
        stopped = self._follow()
        seconds = time.monotonic() - self._began
        status = self._cell.end(self._started)
        self._drain(self._started.out, self._out, self._most + 1)
        self._drain(self._started.answer, self._answer, self._most + run.ANSWER_HEAD.size + 1)
        if stopped is None:
            stopped = self._answered() or self._ended(status)
        stopped.seconds = seconds
        if stopped.status in ("value", "raised") and len(self._out) > self._most:
            stopped.status, stopped.detail, stopped.value = "output", f"it printed more than {self._most} bytes", b""
        stopped.stdout = bytes(self._out[: self._most])
        return stopped

    def _follow(self) -> Outcome | None:
        """Wait for the answer, the end or a limit; return None for the first two."""
        end = self._began + float(self._limits["seconds"])
        look = self._began + FIRST_LOOK_SECONDS
        while True:
            now = time.monotonic()
            if now >= end:
                return Outcome("timeout", f"more than {self._limits['seconds']:g} s")
            if now >= look:
                over = self._over()
                if over:
                    return over
                took = time.monotonic() - now
                look = time.monotonic() + min(MOST_SECONDS, max(LOOK_SECONDS, SHARE * took))
            for descriptor, _ in self._poll.poll(max(0.0, min(end, look) - time.monotonic()) * 1000 + 0.1):
                if descriptor == self._control:
                    raise ParentGone
                if descriptor == self._started.pidfd:
                    return None
                if self._take(descriptor):
                    return None
            if len(self._out) > self._most:
                return Outcome("output", f"it printed more than {self._most} bytes")

    def _take(self, descriptor: int) -> bool:
        """Read what is available; return True once the answer is complete, or can never be valid."""
        into = self._answer if descriptor == self._started.answer else self._out
        most = self._most + (run.ANSWER_HEAD.size if into is self._answer else 0) + 1
        if self._drain(descriptor, into, most) == 0:
            self._poll.unregister(descriptor)
        if into is not self._answer or len(into) < run.ANSWER_HEAD.size:
            return False
        _, size = run.ANSWER_HEAD.unpack_from(into)
        return size > self._most or len(into) >= run.ANSWER_HEAD.size + size

    def _drain(self, descriptor: int, into: bytearray, most: int) -> int:
        """Read until nothing is there or `most` is held; -1 when more may come, 0 at the end of the pipe."""
        while len(into) < most:
            try:
                chunk = os.read(descriptor, min(CHUNK, most - len(into)))
            except BlockingIOError:
                return -1
            if not chunk:
                return 0
            into += chunk
        return -1

    def _answered(self) -> Outcome | None:
        if len(self._answer) < run.ANSWER_HEAD.size:
            return None
        kind, size = run.ANSWER_HEAD.unpack_from(self._answer)
        payload = bytes(self._answer[run.ANSWER_HEAD.size :])
        if kind not in KINDS or size > self._most or len(payload) != size:
            return Outcome("died", "what it sent is no answer")
        status = KINDS[kind]
        if status == "value":
            return Outcome(status, value=payload)
        shown = payload[: run.SHOWN_OF_AN_ERROR].decode("utf-8", "replace")
        return Outcome(status, shown or self._stock(status))

    def _stock(self, status: str) -> str:
        if status == "memory":
            return f"more than {self._limits['memory_bytes'] >> 20} MiB"
        return f"its value has more than {self._most} bytes"

    def _ended(self, status: int | str) -> Outcome:
        if isinstance(status, str):
            return Outcome("broke", f"a run could not be confined: {status}")
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            if number == signal.SIGXCPU:
                return Outcome("timeout", "its processor time ran out")
            return Outcome("died", f"ended by {signal.Signals(number).name}")
        return Outcome("died", f"ended with exit code {os.waitstatus_to_exitcode(status)} before it answered")

    def _over(self) -> Outcome | None:
        """Check all processes of the run: their total memory, their number, what they have written."""
        held = threads = 0
        for pid in descendants():
            try:
                one = sizes(pid)
            except OSError:
                continue
            inherited = self._base["RssAnon"] if one["VmExe"] == self._base["VmExe"] else 0
            held += max(0, one["RssAnon"] - inherited) + one["RssShmem"] + one["VmSwap"]
            held += max(0, one["VmPTE"] - self._base["VmPTE"])
            threads += one["Threads"]
        if held > self._limits["memory_bytes"]:
            return Outcome("memory", f"more than {self._limits['memory_bytes'] >> 20} MiB in all its processes")
        if threads > int(self._limits["processes"]) + 2:
            return Outcome("died", f"more than {self._limits['processes']} processes and threads")
        written = self._cell.written(self._limits)
        return Outcome("output", written) if written else None


def descendants() -> list[int]:
    """Return the processes below this one that can be found."""
    found: list[int] = []
    pending = [os.getpid()]
    while pending:
        pid = pending.pop()
        try:
            tasks = os.listdir(f"/proc/{pid}/task")
        except OSError:
            continue
        for task in tasks:
            try:
                with open(f"/proc/{pid}/task/{task}/children") as file:
                    children = [int(word) for word in file.read().split()]
            except OSError:
                continue
            found += children
            pending += children
    return found
