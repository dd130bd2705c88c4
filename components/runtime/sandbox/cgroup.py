"""A control group around a sandbox, if this process may create one (version 1 or 2): memory and number of processes.

Never relied on: the limits of the processes themselves and the server's watch hold without it, too. It closes the gap
between two checks of the watch, and bounds root's processes, which have no limit of their own outside namespaces.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections.abc import Iterator
from pathlib import Path

MOUNT = Path("/sys/fs/cgroup")
PREFIX = "posttrain-sandbox-"
CONTROLLERS = ("memory", "pids")
MEMORY_FILES = ("memory.max", "memory.limit_in_bytes")
USAGE_FILES = ("memory.current", "memory.usage_in_bytes")
KILL_FILES = ("memory.events", "memory.oom_control")
SLACK_BYTES = 64 << 20
"""Page tables, pipes and what the server itself allocates during a run."""
UNLIMITED_BYTES = 1 << 60
SERVER_PROCESSES = 6
"""bubblewrap or the guard, the server, a run's keeper, and some to spare."""
REMOVE_TRIES = 20
MOVE_LINE = 'read -r _ && exec "$@"'

_numbers = itertools.count()


class ControlGroup:
    """One group: a folder in each hierarchy that has a controller for us."""

    def __init__(self, folders: list[Path]) -> None:
        self._folders = folders
        self._base = 0
        self._set: tuple[int, int] | None = None

    @staticmethod
    def command(command: list[str]) -> list[str]:
        """Return a command that waits for a line on stdin, sent once it is in the group, then executes `command`."""
        return ["/bin/sh", "-c", MOVE_LINE, "sh", *command]

    def add(self, pid: int) -> None:
        """Move a process into the group; ignore a refusal."""
        for folder in self._folders:
            with contextlib.suppress(OSError):
                (folder / "cgroup.procs").write_text(str(pid))

    def measure(self) -> None:
        """Set the server's current use as its baseline; called after each import."""
        self._base, self._set = int(self._read(USAGE_FILES) or 0), None

    def free(self) -> None:
        """Lift the memory limit for imports; the next run sets it again."""
        self._write(MEMORY_FILES, UNLIMITED_BYTES)
        self._set = None

    def bound(self, memory: int, processes: int) -> None:
        """Set the limits of the next run, plus what the idle server holds."""
        if self._set == (memory, processes):
            return
        self._write(MEMORY_FILES, self._base + memory + SLACK_BYTES)
        self._write(("pids.max",), processes + SERVER_PROCESSES)
        self._set = (memory, processes)

    def kills(self) -> int:
        """Return how many processes were killed for the group's memory so far."""
        for line in self._read(KILL_FILES).splitlines():
            name, _, count = line.partition(" ")
            if name == "oom_kill":
                return int(count)
        return 0

    def remove(self) -> None:
        """Remove the group; its processes have ended."""
        for folder in self._folders:
            for _ in range(REMOVE_TRIES):
                try:
                    folder.rmdir()
                except FileNotFoundError:
                    break
                except OSError:  # the kernel is not done with the last of them
                    time.sleep(0.005)
                else:
                    break

    def _read(self, names: tuple[str, ...]) -> str:
        for path in self._files(names):
            with contextlib.suppress(OSError):
                return path.read_text()
        return ""

    def _write(self, names: tuple[str, ...], value: int) -> None:
        for path in self._files(names):
            with contextlib.suppress(OSError):
                path.write_text(str(value))

    def _files(self, names: tuple[str, ...]) -> Iterator[Path]:
        return (folder / name for folder in self._folders for name in names if (folder / name).exists())


def make_group() -> ControlGroup | None:
    """Return a new group, or None if none can be created."""
    if not os.access("/bin/sh", os.X_OK):
        return None
    name = f"{PREFIX}{os.getpid()}-{next(_numbers)}"
    folders: list[Path] = []
    for parents in _hierarchies():
        for parent in parents:
            folder = parent / name
            try:
                _sweep(parent)
                folder.mkdir()
            except OSError:
                continue
            if any((folder / file).exists() for file in (*MEMORY_FILES, "pids.max")):
                folders.append(folder)
                break
            with contextlib.suppress(OSError):
                folder.rmdir()
    return ControlGroup(folders) if folders else None


def _hierarchies() -> list[list[Path]]:
    """Return, for each hierarchy with a controller for us, the folders in which a group might be made."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and not set(controllers.split(",")) & set(CONTROLLERS):
            continue
        root = MOUNT / controllers if controllers else MOUNT
        own = root / path.lstrip("/")
        if root.is_dir():
            # In version 2 a group with processes has no groups below it with controllers: then beside it.
            found.append([own] if controllers else [own, own.parent] if own != root else [own])
    return found


def _sweep(parent: Path) -> None:
    """Remove the empty groups of processes that were killed."""
    for old in parent.glob(f"{PREFIX}*"):
        pid = old.name[len(PREFIX) :].partition("-")[0]
        if not Path(f"/proc/{pid}").exists():
            with contextlib.suppress(OSError):
                old.rmdir()
