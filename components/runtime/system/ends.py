"""How a process ended, as readable text."""

from __future__ import annotations

import signal

MEMORY = "by the system when memory ran out"
"""Part of the cause if the system may have killed a process because memory ran out."""


def cause_of_end(code: int) -> str:
    """Return the meaning of an exit code; a negative one is the signal that killed the process."""
    if code >= 0:
        return f"ended with exit code {code} before the stage was done"
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    hint = f" (by a person, or {MEMORY})" if -code == signal.SIGKILL else ""
    return f"was killed by {name}{hint}"
