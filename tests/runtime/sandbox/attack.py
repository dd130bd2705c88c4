"""A hostile program, and what may come of it."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

HEAD = """
import ctypes, errno, gc, itertools, json, os, signal, socket, struct, subprocess, sys, threading, time
LIBC = ctypes.CDLL(None, use_errno=True)

def tries(*doings):
    "Say ESCAPED and which when one of them goes through."
    for place, doing in enumerate(doings):
        try:
            result = doing()
        except (OSError, AttributeError, ValueError, subprocess.SubprocessError):
            continue
        if result is not None and result is not False and result != -1 and result != b"":
            return f"ESCAPED {place}: {result!r}"
    return "refused"

def done(doing, *arguments):
    doing(*arguments)
    return True
"""


@dataclass(frozen=True)
class Attack:
    """A program with `attack(world)`; it escapes when that returns ESCAPED, or when the world outside has changed."""

    name: str
    source: str
    statuses: tuple[str, ...] = ("value",)
    """What the sandbox may say of it."""
    seconds: float = 5.0
    memory_mib: int = 128
    output_kib: int = 64

    def program(self) -> str:
        """Return the whole source."""
        return HEAD + textwrap.dedent(self.source)


def attack(name: str, source: str, *statuses: str, **limits: float) -> Attack:
    """Return an attack; `value` is what is allowed where no status is named."""
    return Attack(name, source, statuses or ("value",), **limits)
