"""A run in user, PID and mount namespaces of its own: it sees itself alone, and its end ends all it started."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import struct
from collections.abc import Callable
from typing import Any, NoReturn

from components.runtime.sandbox.inside import kernel
from components.runtime.sandbox.inside.cell import Cell, Started, pipes
from components.runtime.sandbox.inside.places import PRIVATE
from components.runtime.sandbox.inside.run import lose_privileges, set_limits, take_descriptors
from components.runtime.sandbox.inside.seccomp import build_filter

STATUS = struct.Struct("!i")
WORKING = f"{PRIVATE}/sandbox-run"
"""Where a run begins: empty, also where libraries lie below the private folder's name."""
BYTES_PER_INODE = 4096
MIN_INODES = 64


class Namespaces(Cell):
    """Runs in namespaces below those of the server."""

    def __init__(self, kept: list[str]) -> None:
        self._kept = kept
        self._user, self._group = os.getuid(), os.getgid()
        self._filter = build_filter(kernel.machine(), watches_files=False)

    def start(self, body: Callable[[], NoReturn], limits: dict[str, Any]) -> Started:
        """Fork a keeper, the first process of the new namespaces, which forks the run and waits for it."""
        base = self.base()
        answer, answer_end, out, out_end, status, status_end = pipes(3)
        pid = kernel.clone_namespaces()
        if pid == 0:
            try:
                self._keep(body, limits, base, (answer_end, out_end, status_end))
            except BaseException as error:
                with contextlib.suppress(OSError):
                    os.write(status_end, f"{type(error).__name__}: {error}".encode()[:500])
            os._exit(70)
        for descriptor in (answer_end, out_end, status_end):
            os.close(descriptor)
        return Started(pid, os.pidfd_open(pid), answer, out, status)

    def end(self, started: Started) -> int | str:
        """Kill the keeper and with it everything in its namespaces; return the run's wait status, or what failed."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(started.pid, signal.SIGKILL)
        os.waitpid(started.pid, 0)
        said = os.read(started.status, 512)
        if len(said) == STATUS.size:
            return STATUS.unpack(said)[0]
        return said.decode("utf-8", "replace") if said else signal.SIGKILL

    def _keep(
        self, body: Callable[[], NoReturn], limits: dict[str, Any], base: dict[str, int], ends: tuple
    ) -> NoReturn:
        answer_end, out_end, status_end = ends
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
        # The files of /proc/self belong to root in a process that is not dumpable; nobody is in these namespaces yet.
        kernel.prctl(kernel.PR_SET_DUMPABLE, 1)
        kernel.map_own_user(self._user, self._group)
        with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
        kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
        self._mount(int(limits["file_bytes"]))
        run = os.fork()
        if run == 0:
            self._confine(limits, base, answer_end, out_end, status_end)
            body()
        os.closerange(0, status_end)
        os.closerange(status_end + 1, 1 << 20)
        resource.setrlimit(resource.RLIMIT_NOFILE, (status_end + 1, status_end + 1))
        while True:
            ended, status = os.waitpid(-1, 0)
            if ended == run:
                os.write(status_end, STATUS.pack(status))
                os._exit(0)

    def _mount(self, size: int) -> None:
        """Mount a private folder of this size, with what libraries lie below its name, and a /proc of the namespace."""
        flags = kernel.MS_NOSUID | kernel.MS_NODEV
        kept = [(path, os.open(path, os.O_PATH)) for path in self._kept]
        inodes = max(MIN_INODES, size // BYTES_PER_INODE)
        kernel.mount("tmpfs", PRIVATE, flags, f"size={size},nr_inodes={inodes},mode=700")
        for path, descriptor in kept:
            if os.path.isdir(f"/proc/self/fd/{descriptor}"):
                os.makedirs(path, exist_ok=True)
            else:
                os.makedirs(os.path.dirname(path), exist_ok=True)
                os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
            kernel.bind(f"/proc/self/fd/{descriptor}", path)
        os.makedirs(WORKING, exist_ok=True)
        kernel.mount("proc", "/proc", flags | kernel.MS_NOEXEC, "subset=pid")

    def _confine(self, limits: dict[str, Any], base: dict[str, int], answer: int, out: int, status: int) -> None:
        try:
            os.setsid()
            os.chdir(WORKING)
            os.environ["HOME"] = os.environ["TMPDIR"] = WORKING
            set_limits(limits, base, int(limits["processes"]) + 1)
            take_descriptors(answer, out)
            lose_privileges(self._filter)
        except BaseException as error:
            with contextlib.suppress(OSError):
                os.write(status, f"{type(error).__name__}: {error}".encode()[:500])
            os._exit(70)
