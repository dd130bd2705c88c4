"""SIGTERM, as service managers and time limits send it, ends a command like Ctrl-C: in order, and resumable."""

from __future__ import annotations

import signal


def terminate_like_interrupt() -> None:
    """Make SIGTERM raise KeyboardInterrupt in the main thread."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
