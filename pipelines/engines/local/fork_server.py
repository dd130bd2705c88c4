"""The process that jobs of this machine are forked from: it has imported the heavy libraries once.

A server of our own, beside the one that multiprocessing shares among all code of a process, since that process may be a
person's notebook or script. Its children do not import the caller's `__main__`: a script without an `if __name__ ==
"__main__"` would start its run again in each job. And it makes way for a fresh server when a later run needs what it
cannot give: further libraries, other variables that libraries read when they are imported, or source edited since.
"""

from __future__ import annotations

import io
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from multiprocessing import context, popen_forkserver, reduction, spawn, util
from multiprocessing.context import set_spawning_popen
from multiprocessing.forkserver import ForkServer, read_signed
from pathlib import Path
from typing import Any

from components.runtime.closure.loaded import LIBRARIES

DEAF, FROZEN = "pipelines.engines.local.deaf", "pipelines.engines.local.frozen"
"""The first and the last import of a server."""
LAUNCHER = (__name__, "components.runtime.job.process")
"""What each job needs before its component: importing it took 0.2 CPU seconds, more than all else of an empty job."""
KEEPS_SOURCE = "components.runtime.closure.preloaded"
READ_AT_IMPORT = (
    *("CUDA_", "HF_", "HOME", "HUGGINGFACE_", "LD_", "LRU_CACHE_", "MKL_", "NVIDIA_", "OMP_", "ONEDNN_", "OPENBLAS_"),
    *("PYTHON", "PYTORCH_", "TOKENIZERS_", "TORCH", "TRANSFORMERS_", "XDG_"),
)
"""Beginnings of variables that take effect when a process starts or a library is imported."""


class JobServer:
    """Forks processes. Not for several threads at once: the caller holds a lock."""

    def __init__(self) -> None:
        self._modules: set[str] = set()
        self._cheap: set[str] = set()
        self._server: _Server | None = None
        self._retired: list[_Server] = []

    def preload(self, modules: Iterable[str], environment: Mapping[str, str], cheap: Iterable[str] = ()) -> None:
        """Prepare for the jobs of a run: its libraries, and the variables of its processes.

        A server that lacks any of it takes no further jobs, and ends when those that it has were waited for. Modules
        that are `cheap` to import are in the next server that starts, and no reason to start one.
        """
        self._modules.update(modules)
        self._cheap.update(cheap)
        if self._server and not self._server.serves(self._modules, environment):
            self._retired.append(self._server)
            self._server = None
        self._retired = [server for server in self._retired if not server.has_ended()]

    def start(
        self, target: Callable[..., None], arguments: tuple[Any, ...], environment: Mapping[str, str], *, name: str
    ) -> JobProcess:
        """Return a running process that calls `target` with `arguments` and the variables that it has to set.

        Of these, None stands for one that the server has and the process must not have.
        """
        if self._server is None:
            self._server = _Server(self._modules, self._cheap, environment)
        variables = {**dict.fromkeys(self._server.environment.keys() - environment.keys()), **environment}
        process = JobProcess(self._server, target=target, args=(*arguments, variables), name=name)
        process.start()
        self._server.took(process)
        return process


class _Server(ForkServer):
    """One server process, started with its first job."""

    _forkserver_address: str | None
    _forkserver_alive_fd: int | None
    _forkserver_pid: int | None

    def __init__(self, modules: Iterable[str], cheap: Iterable[str], environment: Mapping[str, str]) -> None:
        super().__init__()
        self.modules, self.environment = frozenset(modules), dict(environment)
        self._started = time.time_ns()
        self._jobs: list[JobProcess] = []
        self.set_forkserver_preload([DEAF, *sorted(self.modules), *sorted(cheap), *LAUNCHER, KEEPS_SOURCE, FROZEN])

    def ensure_running(self) -> None:
        """Start the process, with its own variables, unless it runs."""
        with _variables(self.environment):
            super().ensure_running()

    def serves(self, modules: set[str], environment: Mapping[str, str]) -> bool:
        """Return whether it has all that jobs of these libraries and variables need."""
        return (
            modules <= self.modules
            and _read_at_import(environment) == _read_at_import(self.environment)
            and _last_edit(self.modules) <= self._started
        )

    def took(self, process: JobProcess) -> None:
        """Remember a job until it has ended."""
        self._jobs = [job for job in self._jobs if job.exitcode is None] + [process]

    def has_ended(self) -> bool:
        """Return whether the process is gone; it is told to end once it has reported how the last of its jobs did."""
        if self._forkserver_pid is None:
            return True
        if any(job.exitcode is None for job in self._jobs):
            return False
        if self._forkserver_alive_fd is not None:
            os.close(self._forkserver_alive_fd)
            self._forkserver_alive_fd = None
            Path(self._forkserver_address or "").unlink(missing_ok=True)
        return os.waitpid(self._forkserver_pid, os.WNOHANG)[0] == self._forkserver_pid


class JobProcess(context.ForkServerProcess):
    """A process forked from a server of ours, which ends with this one."""

    def __init__(self, server: _Server, **about: Any) -> None:
        super().__init__(daemon=True, **about)
        self._server: _Server | None = server

    def _Popen(self, process: JobProcess) -> _Popen:  # type: ignore[override]
        server, self._server = self._server, None  # it is pickled next, and the server stays here
        assert server is not None
        return _Popen(process, server)


class _Popen(popen_forkserver.Popen):
    """As multiprocessing's own, but for the server that it asks, and the `__main__` that it does not import."""

    _fds: list[int]

    def __init__(self, process: JobProcess, server: _Server) -> None:
        self._server = server
        super().__init__(process)

    def _launch(self, process: JobProcess) -> None:
        whole = spawn.get_preparation_data(process.name)
        told = {name: value for name, value in whole.items() if not name.startswith("init_main_")}
        message = io.BytesIO()
        set_spawning_popen(self)
        try:
            reduction.dump(told, message)
            reduction.dump(process, message)
        finally:
            set_spawning_popen(None)
        self.sentinel, writer = self._server.connect_to_new_process(self._fds)
        # the child sees by a copy of the pipe's end whether this process still lives
        self.finalizer = util.Finalize(self, _close, (os.dup(writer), self.sentinel))
        with open(writer, "wb", closefd=True) as stream:  # noqa: PTH123 - a descriptor
            stream.write(message.getbuffer())
        self.pid = read_signed(self.sentinel)


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


@contextmanager
def _variables(environment: Mapping[str, str]) -> Iterator[None]:
    """Set variables of this process, which the one that it starts inherits; afterwards they are as before."""
    before = {name: os.environ.get(name) for name in environment}
    os.environ.update(environment)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _read_at_import(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(READ_AT_IMPORT)}


def _last_edit(modules: Iterable[str]) -> int:
    """Return when the source of preloaded packages was last written (ns since the epoch), without libraries."""
    tops = sorted({name.partition(".")[0] for name in (*modules, KEEPS_SOURCE)})
    return max((path.stat().st_mtime_ns for top in tops for path in _sources(top)), default=0)


def _sources(top: str) -> Iterator[Path]:
    spec = find_spec(top)
    for place in map(Path, (spec and (spec.submodule_search_locations or [spec.origin or ""])) or ()):
        if not any(part in place.parts for part in LIBRARIES):
            yield from place.rglob("*.py") if place.is_dir() else [place] * place.is_file()
