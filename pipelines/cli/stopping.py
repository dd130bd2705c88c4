"""SIGTERM, sent by service managers and time limits, ends a command like Ctrl-C: orderly and resumable."""

from __future__ import annotations

import signal


def terminate_like_interrupt() -> None:
    """Make SIGTERM raise KeyboardInterrupt in the main thread."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
