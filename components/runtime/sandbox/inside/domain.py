"""A run in a Landlock domain of its own, where namespaces are refused.

Three processes, each in a domain below the one before it: the guard, which ends everything when our process or the
server ends; the server; the run. A process can signal only its own domain and those below it, so a run reaches neither
server nor guard, and `kill(-1)` of the server reaches all that a run has started and nobody else. A kernel without
such scopes (before 6.12) gets a filter that lets a run signal only itself, and the server looks for what it started.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from components.runtime.sandbox.inside import kernel, landlock
from components.runtime.sandbox.inside.cell import Cell, Started, pipes
from components.runtime.sandbox.inside.folder import empty, measure
from components.runtime.sandbox.inside.places import DEVICES
from components.runtime.sandbox.inside.run import lose_privileges, set_limits, take_descriptors
from components.runtime.sandbox.inside.seccomp import build_filter
from components.runtime.sandbox.inside.watch import descendants

END_SECONDS = 2.0
COUNT_SECONDS = 1.0
OTHERS = 256
"""Processes and threads that the user may start elsewhere during a run: the kernel counts them together, and an honest
program must not fail because of them. The watch counts those of the run alone."""
MAX_ENTRIES = 4096


class NotEnded(Exception):
    """Something that a run started could not be ended, so the whole sandbox must end."""


class Domains(Cell):
    """Runs in domains below the server's, all in one scratch folder that is emptied after each."""

    def __init__(self, readable: list[str], scratch: str, scoped: bool, version: int) -> None:
        self._version = version
        self._scratch, self._scoped = scratch, scoped
        self._filter = build_filter(kernel.machine(), watches_files=True) if scoped else b""
        self._processes, self._counted = 0, float("-inf")
        # A run may not delete: what it has written stays in sight, and so within its bound.
        self._domain = landlock.Domain([*readable], [scratch], DEVICES)
        landlock.restrict(landlock.Domain([*readable, "/proc"], [scratch], DEVICES, removes=True), self._version)
        kernel.drop_capabilities()

    def start(self, body: Callable[[], NoReturn], limits: dict[str, Any]) -> Started:
        """Fork a run that leads a session of its own."""
        base, processes = self.base(), self._count() + int(limits["processes"]) + OTHERS
        empty(self._scratch)  # of what libraries left there when they were imported
        answer, answer_end, out, out_end, problem, problem_end = pipes(3)
        server = os.getpid()
        pid = os.fork()
        if pid == 0:
            try:
                self._confine(server, limits, base, processes, answer_end, out_end)
            except BaseException as error:
                with contextlib.suppress(OSError):
                    os.write(problem_end, f"{type(error).__name__}: {error}".encode()[:500])
                os._exit(70)
            body()
        for descriptor in (answer_end, out_end, problem_end):
            os.close(descriptor)
        return Started(pid, os.pidfd_open(pid), answer, out, problem)

    def _count(self) -> int:
        """Return how many processes the user has, as of the last second: reading them takes longer than a run."""
        now = time.monotonic()
        if now > self._counted + COUNT_SECONDS:
            self._processes, self._counted = _processes_of(os.getuid()), now
        return self._processes

    def end(self, started: Started) -> int | str:
        """End all that the run started and empty the folder; raise NotEnded if that takes too long."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(started.pid, signal.SIGKILL)
        status = os.waitpid(started.pid, 0)[1]
        end_all(self._scoped, time.monotonic() + END_SECONDS)
        empty(self._scratch)
        os.set_blocking(started.status, False)
        try:
            said = os.read(started.status, 512)
        except BlockingIOError:
            said = b""
        return said.decode("utf-8", "replace") or status

    def written(self, limits: dict[str, Any]) -> str:
        """Return which limit the scratch folder exceeds: the kernel does not bound it here."""
        size, entries = measure(self._scratch, MAX_ENTRIES)
        if entries > MAX_ENTRIES:
            return f"it made more than {MAX_ENTRIES} files"
        return f"it wrote more than {limits['file_bytes']} bytes" if size > limits["file_bytes"] else ""

    def _confine(
        self, server: int, limits: dict[str, Any], base: dict[str, int], processes: int, answer: int, out: int
    ) -> None:
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != server:
            os._exit(70)
        os.setsid()
        os.chdir(self._scratch)
        _offer_to_the_oom_killer()
        set_limits(limits, base, processes)
        take_descriptors(answer, out)
        landlock.restrict(self._domain, self._version)
        own = self._filter or build_filter(kernel.machine(), watches_files=True, own_signals_of=os.getpid())
        lose_privileges(own)


def guard(parent: int, scratch: str, channel: tuple[int, int], version: int) -> bool:
    """Fork the server and watch over it; in the server, return whether signals stay within domains.

    The guard ends with `parent` or with the server, whichever is first, and removes everything
    below it and the scratch folder.
    """
    kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
    waited = {signal.SIGTERM, signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, waited)
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        os._exit(0)
    if not version:
        raise SystemExit("this kernel has no Landlock, or a policy forbids it")
    scoped = _enter_scope(version, parent)
    server = os.fork()
    if server == 0:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
        kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
        return scoped
    for descriptor in channel:
        os.close(descriptor)
    while True:
        number = signal.sigwait(waited)
        if number == signal.SIGTERM or os.waitpid(server, os.WNOHANG)[0]:
            break
    with contextlib.suppress(NotEnded, OSError):
        end_all(scoped, float("inf"))  # whoever waits for this process does so with a bound
        empty(scratch)
        os.rmdir(scratch)
    os._exit(0)


def end_all(scoped: bool, deadline: float) -> None:
    """End every process below this one and reap it; raise NotEnded if some are left at the deadline."""
    while True:
        if scoped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)
        else:
            for pid in descendants():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                continue
        except ChildProcessError:
            return
        if time.monotonic() > deadline:
            raise NotEnded
        time.sleep(0.001)


def _enter_scope(version: int, parent: int) -> bool:
    """Enter a domain that signals cannot leave, and check that it holds; return False where there is none."""
    if version < landlock.FIRST_WITH_SCOPES:
        return False
    landlock.restrict_signals()
    try:
        os.kill(parent, 0)
    except PermissionError as error:
        return error.errno == errno.EPERM
    except ProcessLookupError:
        os._exit(0)
    return False


def _processes_of(user: int) -> int:
    """Return how many processes and threads a user has: the limit on them counts all of the user's."""
    count = 0
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if _user_of(entry.name) == user:
                    count += len(os.listdir(f"/proc/{entry.name}/task"))
    return count


def _user_of(pid: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():  # the folder's owner may be root's instead
        if line.startswith("Uid:"):
            return int(line.split()[1])
    return -1


def _offer_to_the_oom_killer() -> None:
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
