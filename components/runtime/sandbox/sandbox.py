"""A sandbox: runs trusted functions on model output, each in an isolated process."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from components.runtime.sandbox import backends
from components.runtime.sandbox.channel import ChannelClosed, ChannelSilent, ProtocolError
from components.runtime.sandbox.fork_server import ForkServer, NoStart, OutOfMemory
from components.runtime.sandbox.reply import Limits, Reply, Status
from components.runtime.sandbox.values import NotPlain, decode
from components.runtime.sandbox.visible import package_paths

TRIES = 2
"""A server that ended is restarted once: if a run ends two servers, the run is at fault."""

_open: weakref.WeakSet[Sandbox] = weakref.WeakSet()


class Sandbox:
    """Warm fork servers with the same preloaded libraries; use from any thread, and after a fork.

    Up to `servers` runs are concurrent; each server is started when it is first needed.
    """

    def __init__(self, preload: Sequence[str] = (), tools: Sequence[str] = (), servers: int | None = None) -> None:
        self._preload, self._tools = tuple(preload), tuple(tools)
        self._count = servers or _cores()
        self._reset()
        _open.add(self)

    @property
    def backend(self) -> str:
        """The backend that confines the runs: bubblewrap or landlock."""
        return backends.usable_backend()

    def call(self, function: str, argument: Any = None, limits: Limits | None = None) -> Reply:
        """Run `module:function` on a JSON argument in a fresh confined process, and return the outcome.

        The function is trusted code of ours that may evaluate hostile text; its module is imported by the server
        before the clock runs. NoSandbox when this machine offers none; ValueError or TypeError for an argument that
        is no JSON.
        """
        limits = limits or Limits()
        backend = backends.usable_backend()
        body = {"function": function, "argument": argument, "limits": asdict(limits)}
        with self._slot() as slot:
            for _ in range(TRIES):
                try:
                    server = slot.server(backend, self._preload, self._tools, function.partition(":")[0])
                except NoStart as error:
                    slot.drop()
                    slot.forget(function.partition(":")[0])
                    return Reply(Status.BROKE, detail=str(error))
                try:
                    return _reply(*server.call(body, limits.seconds, limits.output_bytes))
                except ChannelSilent:
                    slot.drop()
                    return Reply(Status.TIMEOUT, detail="its sandbox did not answer in time", seconds=limits.seconds)
                except OutOfMemory:
                    slot.drop()
                    return Reply(Status.MEMORY, detail="it used up the memory of its sandbox")
                except (ChannelClosed, ProtocolError):
                    slot.drop()
                except BaseException:  # interrupted midway: the next reply would belong to this request
                    slot.drop()
                    raise
        return Reply(Status.DIED, detail="its sandbox ended with it, twice")

    def close(self) -> None:
        """End all servers; a later call starts new ones."""
        if self._owner == os.getpid():
            with self._lock:
                idle, self._idle = self._idle, []
            for slot in idle:
                slot.drop()

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _reset(self) -> None:
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._free = threading.BoundedSemaphore(self._count)
        self._idle: list[_Slot] = []

    @contextlib.contextmanager
    def _slot(self) -> Iterator[_Slot]:
        if self._owner != os.getpid():
            self._reset()  # forked: the servers are our parent's
        with self._free:
            with self._lock:
                slot = self._idle.pop() if self._idle else _Slot()
            try:
                yield slot
            finally:
                with self._lock:
                    self._idle.append(slot)


class _Slot:
    """The slot of one server."""

    def __init__(self) -> None:
        self._server: ForkServer | None = None
        self._loaded: set[str] = set()
        self._modules: list[str] = []
        self._paths: set[str] = set()

    def server(self, backend: str, preload: Sequence[str], tools: Sequence[str], module: str) -> ForkServer:
        if module not in self._modules:
            self._modules.append(module)
            if not self._paths.issuperset(package_paths([module])):
                self.drop()  # a server sees the packages that it was started with
        if self._server is None:
            wanted = [*preload, *self._modules]
            self._server = backends.start(backend, wanted, tools)
            self._loaded, self._paths = set(), set(package_paths(wanted))
            self._load(wanted)
        elif module not in self._loaded:
            self._load([module])
        return self._server

    def forget(self, module: str) -> None:
        """Drop a module that could not be imported, so that the next server does not load it."""
        if module in self._modules:
            self._modules.remove(module)

    def drop(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.stop()

    def _load(self, modules: list[str]) -> None:
        assert self._server is not None
        problem = self._server.load(modules)
        if problem:
            raise NoStart(problem)
        self._loaded.update(modules)


def open_sandbox(preload: Sequence[str] = (), tools: Sequence[str] = (), servers: int | None = None) -> Sandbox:
    """Return a sandbox; nothing is started before its first call.

    preload: modules to import before any clock runs. tools: commands that programs need beside Python (gcc, node).
    servers: concurrent runs; by default as many as this process has cores.
    """
    return Sandbox(preload, tools, servers)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _reply(head: dict[str, Any], value: bytes, stdout: bytes) -> Reply:
    status = Status(head["status"])
    printed = stdout.decode("utf-8", "replace")
    plain = None
    detail = head["detail"]
    if status is Status.VALUE:
        try:
            plain = decode(value)
        except NotPlain as error:
            status, detail = Status.DIED, f"what it sent is no answer: {error}"
    return Reply(status, plain, detail, printed, head["seconds"])


@atexit.register
def _close_all() -> None:
    for sandbox in list(_open):
        sandbox.close()
