"""What a process and all that it started have used: time since it began, and CPU time."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
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
    parents: dict[int, list[int]] = {}
    used: dict[int, int] = {}
    for one, fields in _processes():
        parents.setdefault(int(fields[PARENT]), []).append(one)
        used[one] = sum(map(int, fields[CPU_TIMES]))
    own = os.getpid() if pid is None else pid
    if own not in used:
        if pid is not None:
            return 0.0
        times = os.times()
        return times.user + times.system + times.children_user + times.children_system
    waiting, ticks = [own], 0
    while waiting:
        one = waiting.pop()
        ticks += used[one]
        waiting += parents.get(one, [])
    return ticks / os.sysconf("SC_CLK_TCK")


def _processes() -> Iterator[tuple[int, list[str]]]:
    for stat in Path("/proc").glob("[0-9]*/stat"):
        if fields := _fields(stat):
            yield int(stat.parent.name), fields


def _fields(stat: Path) -> list[str]:
    """Return the fields behind the program's name, which may hold blanks; none of a process that ended meanwhile."""
    with suppress(OSError):
        return stat.read_text().rpartition(")")[2].split()
    return []
