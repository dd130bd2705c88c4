"""Our side of one fork server: start it, send requests, end it as a whole."""

from __future__ import annotations

import contextlib
import os
import queue
import re
import secrets
import select
import signal
import subprocess
import tempfile
import threading
import time
from typing import Any

from components.runtime.sandbox.cgroup import ControlGroup, make_group
from components.runtime.sandbox.channel import (
    NONCE_BYTES,
    ChannelClosed,
    ChannelSilent,
    ProtocolError,
    frame,
    read_reply,
    write_all,
)
from components.runtime.sandbox.inside.folder import empty
from components.runtime.sandbox.launch import Launch

START_SECONDS = 120.0
"""Time for the server to import its preloaded modules on a slow and busy machine."""
GRACE_SECONDS = 1.5
"""The server ends a run at its limit; this much later we end the server."""
END_SECONDS = 5.0
MAX_DETAIL = 4096
CHILD = re.compile(rb'"child-pid": ([0-9]+)')


class NoStart(Exception):
    """A server did not start; the text gives the reason."""


class OutOfMemory(Exception):
    """The server ended together with a run that exhausted their shared memory."""


class ForkServer:
    """A running sandbox; not thread-safe."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self._inside: int | None = None
        self._group = make_group()
        try:
            self._process = _start(launch, self._errors, self._group is not None)
        except OSError as error:
            self._forget()
            raise NoStart(str(error)) from None
        finally:
            if launch.info >= 0:
                os.close(launch.info)
        assert self._process.stdin is not None and self._process.stdout is not None
        self._requests, self._replies = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._requests, False)
        if self._group is not None:
            self._group.add(self._process.pid)
            with contextlib.suppress(OSError):
                os.write(self._requests, b"\n")

    def load(self, modules: list[str]) -> str:
        """Import modules inside; return why one cannot be imported, or nothing. NoStart if the server is gone."""
        try:
            if self._inside is None:
                self._learn_process(START_SECONDS)
            if self._group is not None:
                self._group.free()
            head, _, _ = self._ask({"do": "load", "modules": modules}, START_SECONDS, 1 << 16)
            if self._group is not None:
                self._group.measure()
        except (ChannelClosed, ChannelSilent, ProtocolError) as error:
            raise NoStart(self.complaint() or f"{type(error).__name__} while it started") from None
        return head["detail"]

    def call(self, body: dict[str, Any], seconds: float, output_bytes: int) -> tuple[dict[str, Any], bytes, bytes]:
        """Return a run's reply; ChannelClosed, ChannelSilent, ProtocolError or OutOfMemory: then stop the server."""
        if self._group is None:
            return self._ask({"do": "call", **body}, seconds + GRACE_SECONDS, max(output_bytes, MAX_DETAIL))
        limits = body["limits"]
        self._group.bound(limits["memory_bytes"] + limits["file_bytes"], limits["processes"])
        before = self._group.kills()
        try:
            head, value, stdout = self._ask(
                {"do": "call", **body}, seconds + GRACE_SECONDS, max(output_bytes, MAX_DETAIL)
            )
        except ChannelClosed:
            if self._group.kills() > before:
                raise OutOfMemory from None
            raise
        if head["status"] == "died" and self._group.kills() > before:
            head = {**head, "status": "memory", "detail": "the memory of all its processes ran out"}
        return head, value, stdout

    def stop(self) -> None:
        """End everything in the sandbox; nothing of it runs after this returns."""
        if self._process.poll() is None:
            self._end()
        self._forget()

    def _end(self) -> None:
        if self._inside is None:
            self._learn_process(END_SECONDS)
        starting = self._inside is None and self._launch.info_reader >= 0
        if self._inside is not None:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(self._inside, signal.SIGKILL)
        elif starting:  # a bubblewrap ended now could leave its first process waiting; with no channel both end
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        else:
            self._process.terminate()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            if starting:
                return
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(END_SECONDS)

    def _ask(self, body: dict[str, Any], seconds: float, most: int) -> tuple[dict[str, Any], bytes, bytes]:
        request = frame(body)
        nonce = secrets.token_bytes(NONCE_BYTES)
        deadline = time.monotonic() + seconds
        write_all(self._requests, request + nonce, deadline)
        return read_reply(self._replies, nonce, most, deadline)

    def _learn_process(self, seconds: float) -> None:
        """Open the first process inside; everything in its PID namespace ends with it."""
        if self._launch.info_reader < 0:
            return
        if select.select([self._launch.info_reader], [], [], seconds)[0]:
            said = os.read(self._launch.info_reader, 4096)  # written in several pieces, this in the first
            if found := CHILD.search(said):
                with contextlib.suppress(OSError):
                    self._inside = os.pidfd_open(int(found[1]))

    def complaint(self) -> str:
        """Return the last line on stderr of a server that has ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        self._errors.seek(0)
        lines = self._errors.read(1 << 16).decode("utf-8", "replace").strip().splitlines()
        return lines[-1][:300] if lines else ""

    def _forget(self) -> None:
        self._errors.close()
        for descriptor in (self._inside, self._launch.info_reader):
            if descriptor is not None and descriptor >= 0:
                with contextlib.suppress(OSError):
                    os.close(descriptor)
        if hasattr(self, "_process"):
            for stream in (self._process.stdin, self._process.stdout):
                with contextlib.suppress(OSError):
                    stream.close()
        if self._group is not None:
            self._group.remove()  # an open descriptor of a process keeps its group
        if self._launch.scratch:
            with contextlib.suppress(OSError):  # the guard has removed it as a rule
                empty(self._launch.scratch)
                os.rmdir(self._launch.scratch)


class _Starter:
    """A thread that starts servers and never ends: Linux ends them with the thread that started them."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self._orders: queue.SimpleQueue = queue.SimpleQueue()
        threading.Thread(target=self._work, name="sandbox-starter", daemon=True).start()

    def start(self, launch: Launch, errors: Any, grouped: bool) -> subprocess.Popen:
        """Return the started process, or raise what starting it raised."""
        answer: queue.SimpleQueue = queue.SimpleQueue()
        self._orders.put((launch, errors, grouped, answer))
        result = answer.get()
        if isinstance(result, BaseException):
            raise result
        return result

    def _work(self) -> None:
        while True:
            launch, errors, grouped, answer = self._orders.get()
            try:
                answer.put(
                    subprocess.Popen(
                        ControlGroup.command(list(launch.command)) if grouped else launch.command,
                        stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE,
                        stderr=errors,
                        env=launch.environment,
                        cwd="/",
                        start_new_session=True,
                        # The reading end, too: a bubblewrap that cannot say what it started (since we were killed
                        # meanwhile) ends and leaves that process behind, which waits for ever to be let go.
                        pass_fds=[launch.info, launch.info_reader] if launch.info >= 0 else [],
                    )
                )
            except BaseException as error:
                answer.put(error)


_starter: _Starter | None = None
_lock = threading.Lock()


def _renew_lock() -> None:
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)  # another thread may have held it


def _start(launch: Launch, errors: Any, grouped: bool) -> subprocess.Popen:
    global _starter
    with _lock:
        if _starter is None or _starter.owner != os.getpid():
            _starter = _Starter()
    return _starter.start(launch, errors, grouped)
