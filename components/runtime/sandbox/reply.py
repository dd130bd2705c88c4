"""Limits and outcome of a run."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from components.contract.errors import InputError

MIB = 1 << 20
MOST = 1 << 50


class Status(StrEnum):
    """Outcome of one run."""

    VALUE = "value"
    """The function returned; `value` is its JSON value."""
    RAISED = "raised"
    """The function raised, or returned a value that is not JSON; `detail` is "Type: text"."""
    TIMEOUT = "timeout"
    """Its time ran out."""
    MEMORY = "memory"
    """It exceeded its memory limit."""
    OUTPUT = "output"
    """It printed or returned more than allowed."""
    DIED = "died"
    """Its process ended without an answer, or sent an invalid one."""
    BROKE = "broke"
    """The sandbox itself is at fault: it could not start, or could not import a requested module."""


@dataclass(frozen=True)
class Limits:
    """Limits of one run."""

    seconds: float = 5.0
    """Wall-clock time of the run, without preloaded imports."""
    memory_bytes: int = 512 * MIB
    """Memory of all its processes together, beyond what the preloaded libraries hold."""
    output_bytes: int = 64 << 10
    """Limit of its printed output, and separately of its value."""
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
    """This machine does not allow confining a process; the one-line message names the package and the setting."""
