"""What a run may use and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from components.contract.errors import InputError

MIB = 1 << 20
MOST = 1 << 50


class Status(StrEnum):
    """What came of one run."""

    VALUE = "value"
    """The function returned; `value` is its JSON value."""
    RAISED = "raised"
    """The function raised, or returned what is no JSON value; `detail` is "Type: text"."""
    TIMEOUT = "timeout"
    """Its time ran out."""
    MEMORY = "memory"
    """It wanted more memory than its limit."""
    OUTPUT = "output"
    """It printed or returned more than it may."""
    DIED = "died"
    """Its process ended without an answer, or sent something that is no answer."""
    BROKE = "broke"
    """The sandbox itself is at fault: it could not start, or what it was to load cannot be imported."""


@dataclass(frozen=True)
class Limits:
    """What one run may use."""

    seconds: float = 5.0
    """Wall-clock time of the run; imports of what is preloaded do not count."""
    memory_bytes: int = 512 * MIB
    """Memory of all its processes together, beyond what the preloaded libraries hold."""
    output_bytes: int = 64 << 10
    """What it may print, and as much again for its value."""
    processes: int = 16
    """Processes and threads that it may have at once."""
    file_bytes: int = 16 * MIB
    """What it may write below its private /tmp, in all."""
    address_bytes: int = 0
    """Address space beyond `memory_bytes`, for runtimes that reserve much and use little (node: 64 GiB); 0 is 1 GiB."""

    def __post_init__(self) -> None:
        for name in ("seconds", "memory_bytes", "output_bytes", "processes", "file_bytes"):
            if not 0 < getattr(self, name) <= MOST:
                raise ValueError(f"limits: {name} is {getattr(self, name)}; it has to lie between 0 and {MOST}")


@dataclass(frozen=True)
class Reply:
    """The answer to one run."""

    status: Status
    value: Any = None
    detail: str = ""
    stdout: str = ""
    """What it printed to stdout and stderr, at most `Limits.output_bytes` of it."""
    seconds: float = 0.0


class NoSandbox(InputError):
    """This machine lets nobody confine a process; the one line names the package and the setting."""
