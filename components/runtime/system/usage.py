"""What a process and all that it started have used: time since it began, and CPU time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

PARENT, CPU_TIMES, BEGAN = 1, slice(11, 15), 19
"""Fields of /proc/PID/stat behind the program's name: see proc_pid_stat(5). CPU times are those of the process and of
the children that it waited for, in user and in kernel mode."""


def process_age() -> float:
    """Return the seconds since this process was started or forked, which no clock's change moves; 0 without /proc."""
    began = _fields(Path("/proc/self/stat"))
    if not began:
        return 0.0
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - int(began[BEGAN]) / os.sysconf("SC_CLK_TCK"))


def cpu_seconds(pid: int | None = None) -> float:
    """Return the CPU seconds of this process, or of `pid`, and of all that it started, living or ended.

    Without /proc those of living children are missing, and those of another process are 0.
    """
    first, ticks = os.getpid() if pid is None else pid, 0
    for one in (first, *descendants(first)):
        if fields := _fields(Path(f"/proc/{one}/stat")):
            ticks += sum(map(int, fields[CPU_TIMES]))
    if not ticks and pid is None and not Path("/proc/self/stat").exists():
        times = os.times()
        return times.user + times.system + times.children_user + times.children_system
    return ticks / os.sysconf("SC_CLK_TCK")


def descendants(pid: int) -> list[int]:
    """Return the living processes that a process has started, and those that they have; none without /proc."""
    children = _listed_children if _listed_children(os.getpid()) is not None else _children_by_parent()
    waiting, found = [pid], list[int]()
    while waiting:
        started = children(waiting.pop()) or []
        found += started
        waiting += started
    return found


def _listed_children(pid: int) -> list[int] | None:
    """Return a process's living children as the kernel lists them; None for a kernel that does not.

    Looking for them among all processes would take as long as the machine has processes, twice in each job.
    """
    found: list[int] | None = None
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            found = (found or []) + [int(child) for child in path.read_text().split()]
    return found


def _children_by_parent() -> Callable[[int], list[int]]:
    """Return a function from a process to its living children, found among all processes."""
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        if fields := _fields(stat):
            parents.setdefault(int(fields[PARENT]), []).append(int(stat.parent.name))
    return lambda pid: parents.get(pid, [])


def _fields(stat: Path) -> list[str]:
    """Return the fields behind the program's name, which may hold blanks; none of a process that ended meanwhile."""
    with suppress(OSError):
        return stat.read_text().rpartition(")")[2].split()
    return []
