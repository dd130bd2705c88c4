"""SIGTERM waits until the checkpoint that is being written is committed, then ends the process as always."""

from __future__ import annotations

import os
import signal
from threading import Thread, current_thread, main_thread
from typing import Any

GRACE_SECONDS = 20.0
"""Longest wait; Kubernetes kills a pod after 30 s."""


def end_after(writer: Thread) -> None:
    """Let SIGTERM wait for `writer` from now on, unless this process handles it already."""
    if current_thread() is not main_thread() or not _is_ours(signal.getsignal(signal.SIGTERM)):
        return
    signal.signal(signal.SIGTERM, _Wait(writer))


class _Wait:
    def __init__(self, writer: Thread) -> None:
        self._writer = writer

    def __call__(self, number: int, frame: Any) -> None:
        if self._writer.is_alive():
            self._writer.join(GRACE_SECONDS)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)


def _is_ours(handler: Any) -> bool:
    return handler is signal.SIG_DFL or isinstance(handler, _Wait)
