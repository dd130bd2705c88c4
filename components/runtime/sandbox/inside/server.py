"""The fork server: imports libraries once, then forks one confined run per request. It never runs model output."""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import signal
import sys
import time
from typing import Any

from components.runtime.sandbox.channel import (
    NONCE_BYTES,
    ChannelClosed,
    pack_reply,
    read_exactly,
    read_request,
    write_all,
)
from components.runtime.sandbox.inside import kernel, run
from components.runtime.sandbox.inside.cell import Cell
from components.runtime.sandbox.inside.watch import Outcome, ParentGone, Watch

FIRST_FREE = 10


def main() -> None:
    """Serve until the other side is gone; the settings are the last argument."""
    settings = json.loads(sys.argv[-1])
    if "info_reader" in settings:
        with contextlib.suppress(OSError):
            os.close(settings["info_reader"])  # it was for bubblewrap itself
    control, replies = _take_channel()
    kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
    os.umask(0o077)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # with a handler it would reach the first process of a namespace
    if settings["backend"] == "landlock":
        from components.runtime.sandbox.inside import landlock
        from components.runtime.sandbox.inside.domain import Domains, guard

        version = min(landlock.version(), settings["version"])
        scoped = guard(settings["parent"], settings["scratch"], (control, replies), version)
        cell: Cell = Domains(settings["readable"], settings["scratch"], scoped, version)
    else:
        from components.runtime.sandbox.inside.namespaces import Namespaces
        from components.runtime.sandbox.inside.outer import become_nobody

        become_nobody()
        kernel.prctl(
            kernel.PR_SET_PDEATHSIG, signal.SIGKILL
        )  # with bubblewrap; not before: a change of user forgets it
        cell = Namespaces(settings["below_private"])
    run.settle_libraries()
    with contextlib.suppress(ChannelClosed, ParentGone):
        Server(cell, control, replies).serve()
    os._exit(0)


class Server:
    """Answers requests one at a time."""

    def __init__(self, cell: Cell, control: int, replies: int) -> None:
        self._cell, self._control, self._replies = cell, control, replies

    def serve(self) -> None:
        """Answer until the channel is closed."""
        while True:
            request = read_request(self._control)
            outcome = self._load(request["modules"]) if request["do"] == "load" else self._call(request)
            nonce = read_exactly(self._control, NONCE_BYTES) if request["do"] == "load" else self._nonce
            head = {"status": outcome.status, "detail": outcome.detail, "seconds": outcome.seconds}
            write_all(self._replies, pack_reply(nonce, head, outcome.value, outcome.stdout))

    def _load(self, modules: list[str]) -> Outcome:
        for name in modules:
            try:
                importlib.import_module(name)
            except BaseException as error:
                return Outcome(
                    "broke", f"{name} cannot be imported in the sandbox: {type(error).__name__}: {error}"[:500]
                )
        gc.collect()
        gc.freeze()  # a run's first collection would otherwise copy every page
        return Outcome("value", value=b"null")

    def _call(self, request: dict[str, Any]) -> Outcome:
        began = time.monotonic()
        limits = request["limits"]
        try:
            function = _find(request["function"])
        except Exception as error:
            self._nonce = read_exactly(self._control, NONCE_BYTES)
            return Outcome("broke", f"{request['function']}: {type(error).__name__}: {error}"[:500])

        def body() -> None:
            run.be_reproducible()
            run.answer(function, request["argument"], int(limits["output_bytes"]))

        try:
            started = self._cell.start(body, limits)
        except OSError as error:
            self._nonce = read_exactly(self._control, NONCE_BYTES)
            return Outcome("broke", f"no run could be started: {error}")
        try:
            # Only now: the run was forked before its nonce was read, so it cannot hold it.
            self._nonce = read_exactly(self._control, NONCE_BYTES)
            outcome = Watch(self._cell, started, limits, self._control).outcome()
        finally:
            started.close()
        outcome.seconds = outcome.seconds or time.monotonic() - began
        return outcome


def _find(function: str) -> Any:
    module, _, name = function.partition(":")
    found = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def _take_channel() -> tuple[int, int]:
    """Move the channel away from stdin and stdout, so that nothing a library prints gets into it; 3 stays taken."""
    import fcntl

    control = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, FIRST_FREE)
    replies = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, FIRST_FREE)
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.dup2(null, run.ANSWER)
    return control, replies
