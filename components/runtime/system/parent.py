"""Ties a process to its parent, so that no orphan keeps running after its parent was killed."""

from __future__ import annotations

import ctypes
import signal
import sys
from pathlib import Path

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36


def die_with_parent(by: signal.Signals = signal.SIGKILL) -> None:
    """Ask Linux to signal this process when its parent ends, however it ends; elsewhere nothing changes."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, by)


def adopt_orphans() -> None:
    """Become the parent of all descendants whose own parents end, so that they can be found and ended."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)


def children_of(pid: int) -> list[int]:
    """Return the processes whose parent is `pid`; none if there is no /proc."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it ended meanwhile
            continue
        if int(fields[1]) == pid:
            found.append(int(stat.parent.name))
    return found
