"""SIGTERM, sent by service managers and time limits, ends a command like Ctrl-C: orderly and resumable."""

from __future__ import annotations

import atexit
import os
import signal
from types import FrameType

STOPPING = b"posttrain: already stopping; the run's records are being written\n"


def terminate_like_interrupt() -> None:
    """Make SIGTERM raise KeyboardInterrupt in the main thread."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def stop_once() -> None:
    """Make the first Ctrl-C or SIGTERM raise KeyboardInterrupt; each later one is answered with a line.

    A second one would break off what the first one began: ending the stages, the run's records and their delivery.
    All of these are bounded in time.
    """
    stopping = False

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal stopping
        if not stopping:
            stopping = True
            atexit.register(_ignore)  # Python drops its handlers while it ends, and one more would kill it then
            raise KeyboardInterrupt
        os.write(2, STOPPING)  # print may be under way in the code that this interrupts

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)


def _ignore() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
