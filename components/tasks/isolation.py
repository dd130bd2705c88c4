"""Verification in a process of its own: for verifiers that evaluate what a model wrote, or that may never end.

The worker has a deadline per call that even a loop in C obeys, a memory limit, no file writing and none of the
parent's environment. That stops accidents; it is no sandbox against an attacker with a Python interpreter.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from components.tasks.item import Item
from components.tasks.verify import Outcome, Verdict, VerifierStopped

START_SECONDS = 60.0
GRACE_SECONDS = 2.0
"""The worker ends itself at the deadline; this much later the parent ends it."""
KEPT_VARIABLES = ("PATH", "LANG", "LC_ALL", "TMPDIR", "VIRTUAL_ENV")
CHUNK_BYTES = 1 << 16


_inside = False
_lock = threading.Lock()
_worker: _Worker | None = None


def enter_worker() -> None:
    """Say that this process is the worker, so that verifiers judge in place."""
    global _inside
    _inside = True


def inside_worker() -> bool:
    """Return whether this process is the worker."""
    return _inside


def verify_isolated(item: Item, response: str, *, seconds: float) -> Verdict:
    """Judge in the worker process; it is started at the first call and after every death.

    Raises VerifierStopped when the worker ran out of time or memory, or crashed.
    """
    global _worker
    with _lock:
        if _worker is None or not _worker.usable():
            _worker = _Worker()
        try:
            reply = _worker.ask({"item": item.row(), "response": response, "seconds": seconds}, seconds)
        except VerifierStopped:
            _worker.stop()
            _worker = None
            raise
    return Verdict(Outcome(reply["outcome"]), reply["detail"])


@atexit.register
def _end_worker() -> None:
    if _worker is not None and _worker.usable():
        _worker.stop()


class _Worker:
    def __init__(self) -> None:
        self._owner = os.getpid()
        environment = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
        environment["OMP_NUM_THREADS"] = "1"  # thread stacks would count against the memory limit
        environment["PYTHONPATH"] = os.pathsep.join(path or str(Path.cwd()) for path in sys.path)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "components.tasks.verify_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
        self._buffer = b""
        self._read(START_SECONDS)

    def usable(self) -> bool:
        """Return whether the worker lives and is this process's own (not its parent's, after a fork)."""
        return self._owner == os.getpid() and self._process.poll() is None

    def ask(self, request: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Return the reply to one request; raise VerifierStopped when there is none in time."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise VerifierStopped("the verifier's process had ended") from error
        return self._read(seconds + GRACE_SECONDS)

    def stop(self) -> None:
        """End the process and wait for it."""
        self._process.kill()
        self._process.communicate()

    def _read(self, seconds: float) -> dict[str, Any]:
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([descriptor], [], [], seconds)
            chunk = os.read(descriptor, CHUNK_BYTES) if ready else b""
            if not chunk:
                raise VerifierStopped(self._why_silent(timed_out=not ready))
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        return json.loads(line)

    def _why_silent(self, *, timed_out: bool) -> str:
        if timed_out:
            return "out of time"
        code = self._process.wait(timeout=START_SECONDS)
        if code == -signal.SIGALRM:
            return "out of time"
        return f"its process ended with {signal.Signals(-code).name if code < 0 else f'exit code {code}'}"
