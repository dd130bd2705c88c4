"""The server's process: started on a free port of loopback, waited for until it is healthy, and stopped for certain."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from components.contract.errors import InputError, StageFailed
from components.contract.terminal import short_line
from components.runtime.system.ends import MEMORY
from components.runtime.system.parent import children_of
from components.serve.server.commands import HOST, Command, Serving
from components.serve.server.guard import GRACE_SECONDS

GUARD = "components.serve.server.guard"
ROOT = Path(__file__).parents[3]
TRIES = 3
"""Ports that are tried if another program takes one between our choice and the server's bind."""
POLL_SECONDS = 0.1
ASK_SECONDS = 5.0
LAST_LINES, SHOWN, TAIL_BYTES = 5, 600, 1 << 14
TAKEN = ("address already in use", "errno 98", "address in use")
NO_VLLM = "No module named 'vllm'"


class ServerProcess:
    """A server that answers requests with its key. As a context manager it starts on entry and is gone after exit."""

    def __init__(self, serving: Serving, command: Callable[[int], Command], log: Path, *, start_seconds: float) -> None:
        """`command` gives what to run on a port; `log` is where the server's output goes."""
        self._serving, self._command, self._log = serving, command, log
        self._start_seconds = start_seconds
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0
        self.startup_seconds = 0.0

    @property
    def base_url(self) -> str:
        """Return the address of its API."""
        return f"http://{HOST}:{self.port}/v1"

    @property
    def alive(self) -> bool:
        """Return whether it is running."""
        return self._process is not None and self._process.poll() is None

    def __enter__(self) -> Self:
        began = time.monotonic()
        try:
            for number in range(1, TRIES + 1):
                self._start(free_port())
                if self._is_healthy(began + self._start_seconds):
                    break
                if not self._port_was_taken() or number == TRIES:
                    raise StageFailed(f"the server ended before it was healthy: {self.how_it_ended()}")
                self.stop()
        except BaseException:
            self.stop()
            raise
        self.startup_seconds = time.monotonic() - began
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End the server and all its processes, and wait for that."""
        process = self._process
        if process is None:
            return
        if process.poll() is None:
            process.terminate()  # the guard ends the server's processes
            try:
                process.wait(GRACE_SECONDS + 5)
            except subprocess.TimeoutExpired:
                _kill_below(process.pid)
                process.kill()
                process.wait()
        self._process = None

    def how_it_ended(self) -> str:
        """Return its exit code and its last lines, in one line without its key."""
        code = None if self._process is None else self._process.poll()
        how = "it is still running" if code is None else f"exit code {code}" if code < 128 else _signal_name(code - 128)
        said = " | ".join(self._tail())
        hint = "; install vllm, or name its Python in POSTTRAIN_VLLM_PYTHON" if NO_VLLM in said else ""
        return f"{how}; its last lines: {short_line(said, SHOWN) or '(none)'}{hint}"

    def _start(self, port: int) -> None:
        self.port = port
        command = self._command(port)
        path = os.pathsep.join([str(ROOT), *filter(None, [command.environment.get("PYTHONPATH")])])
        with self._log.open("wb") as log:
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", GUARD, str(os.getpid()), *command.words],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env={**command.environment, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"},
                    start_new_session=True,  # Ctrl-C reaches the stage, which stops it
                )
            except OSError as error:
                raise InputError(f"the server cannot be started: {error.strerror or error}") from error

    def _is_healthy(self, deadline: float) -> bool:
        """Wait until it is healthy; return False if it ended. Raises StageFailed at the deadline."""
        while self.alive:
            if self._answers():
                return True
            if time.monotonic() > deadline:
                raise StageFailed(
                    f"the server was not healthy within {self._start_seconds:g} s (start_timeout_seconds): "
                    f"{self.how_it_ended()}"
                )
            time.sleep(POLL_SECONDS)
        return False

    def _answers(self) -> bool:
        """Return whether our model, by its new name, is served at the port; raise StageFailed if no key is needed."""
        if _get(self.port, "/health", None)[0] != 200:
            return False
        status, text = _get(self.port, "/v1/models", self._serving.key)
        try:
            names = [entry["id"] for entry in json.loads(text)["data"]] if status == 200 else []
        except (ValueError, LookupError, TypeError):
            names = []
        if self._serving.model not in names:
            return False  # another program's: ours will tell that it cannot bind
        if _get(self.port, "/v1/models", None)[0] not in (401, 403):
            raise StageFailed("the server answers without its key; nothing was asked of it")
        return True

    def _port_was_taken(self) -> bool:
        return any(word in " ".join(self._tail()).lower() for word in TAKEN)

    def _tail(self) -> list[str]:
        try:
            with self._log.open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - TAIL_BYTES))
                text = log.read().decode(errors="replace")
        except OSError:
            return []
        lines = [line.strip() for line in text.replace(self._serving.key, "[key]").splitlines()]
        return [line for line in lines if line][-LAST_LINES:]


def free_port() -> int:
    """Return a port of loopback that nothing listens on."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def _get(port: int, path: str, key: str | None) -> tuple[int, bytes]:
    """Return status and body of a request that goes through no proxy; status 0 if there is no answer."""
    connection = http.client.HTTPConnection(HOST, port, timeout=ASK_SECONDS)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {key}"} if key else {})
        answer = connection.getresponse()
        return answer.status, answer.read(1 << 20)
    except (OSError, http.client.HTTPException):
        return 0, b""
    finally:
        connection.close()


def _kill_below(pid: int) -> None:
    for child in children_of(pid):
        _kill_below(child)
        try:
            os.kill(child, signal.SIGKILL)
        except ProcessLookupError:
            continue


def _signal_name(number: int) -> str:
    name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
    return f"killed by {name}{f' (by a person, or {MEMORY})' if number == signal.SIGKILL else ''}"
