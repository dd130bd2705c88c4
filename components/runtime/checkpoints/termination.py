"""SIGTERM: the checkpoint that is being written is committed first, and in a pod a last one is asked for.

Kubernetes sends SIGTERM when a node is drained or taken back, or when a pod of higher priority needs the place, and
kills the pod when its grace period is over. A stage that makes no checkpoint in that time goes on from its last one.
"""

from __future__ import annotations

import os
import signal
import sys
from threading import Thread, Timer, current_thread, main_thread
from typing import Any

GRACE = "POSTTRAIN_GRACE_SECONDS"
"""Variable of a pod with the seconds that its stage has between SIGTERM and its end."""
GRACE_SECONDS = 20.0
"""Longest wait without the variable; Kubernetes kills a pod after 30 s."""
SPARE_SECONDS = 10
"""Of a pod's grace period, what is left for its end."""


class Termination:
    """What SIGTERM does to a process that makes checkpoints."""

    def __init__(self) -> None:
        self.asked = False
        """Whether the process was told to end, and a last checkpoint is wanted at once."""
        self._writer: Thread | None = None
        if GRACE in os.environ:
            self._arm()

    def end_after(self, writer: Thread) -> None:
        """Let SIGTERM wait for `writer` from now on."""
        self._writer = writer
        self._arm()

    def end(self) -> None:
        """End this process as SIGTERM ends one that does not handle it."""
        sys.stdout.flush()
        sys.stderr.flush()
        if current_thread() is main_thread():
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)
        os._exit(128 + signal.SIGTERM)  # the first process of a container is not ended by a signal that it sends itself

    def _arm(self) -> None:
        """Handle SIGTERM, unless this process does so in another way."""
        if current_thread() is main_thread() and _is_ours(signal.getsignal(signal.SIGTERM)):
            signal.signal(signal.SIGTERM, self)  # type: ignore[arg-type]

    def __call__(self, number: int, frame: Any) -> None:
        """Handle one SIGTERM."""
        writing = self._writer is not None and self._writer.is_alive()
        if self._writer is not None and writing:
            self._writer.join(grace_seconds())
        if writing or GRACE not in os.environ:
            self.end()
        if not self.asked:
            self.asked = True
            timer = Timer(grace_seconds(), self.end)
            timer.daemon = True
            timer.start()


def grace_seconds() -> float:
    """Return how long this process has between SIGTERM and its end."""
    try:
        return max(1.0, float(os.environ[GRACE]))
    except (KeyError, ValueError):
        return GRACE_SECONDS


def _is_ours(handler: Any) -> bool:
    return handler is signal.SIG_DFL or isinstance(handler, Termination)
