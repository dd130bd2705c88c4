"""Runs a server and ends with it: none of its processes outlives the stage, however that ends.

    python -m components.serve.server.guard PARENT COMMAND...

The kernel tells this process when the stage dies, by kill -9, too; it then ends every process that the server started.
The server itself is killed if this process is.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from types import FrameType

from components.runtime.system.parent import adopt_orphans, children_of, die_with_parent

GRACE_SECONDS = 5.0
"""From the request to end to SIGKILL."""


def main() -> int:
    """Run the command; return its exit code, negative signals as 128 + signal."""
    parent, command = int(sys.argv[1]), sys.argv[2:]
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the stage handles Ctrl-C
    signal.signal(signal.SIGTERM, _end)
    adopt_orphans()
    die_with_parent(signal.SIGTERM)
    if os.getppid() != parent:  # it ended before the kernel knew
        return 1
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL, preexec_fn=_with_guard)
    code = server.wait()
    _kill_all()
    return code if code >= 0 else 128 - code


def _with_guard() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    die_with_parent()


def _end(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for pid in children_of(os.getpid()):
        _signal(pid, signal.SIGTERM)
    deadline = time.monotonic() + GRACE_SECONDS
    while children_of(os.getpid()) and time.monotonic() < deadline:
        _reap()
        time.sleep(0.02)
    _kill_all()
    os._exit(128 + signal.SIGTERM)


def _kill_all() -> None:
    """Kill all that is left: children, and theirs, which become ours as their parents end."""
    while children := children_of(os.getpid()):
        for pid in children:
            _signal(pid, signal.SIGKILL)
        _reap()
        time.sleep(0.01)


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _reap() -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


if __name__ == "__main__":
    sys.exit(main())
