"""Run commands side by side: the first shows its output as it comes, the others run one after another meanwhile.

Usage: python tests/side_by_side.py COMMAND COMMAND... Fails if any of them fails; what the others printed is shown at
the end. Tests wait about as long as they calculate, so that suites of several environments share the cores well.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from threading import Thread
from typing import IO

INTERRUPTED = 130


class InTurn(Thread):
    """Runs commands one after another, each in a session of its own, and keeps what they print."""

    def __init__(self, commands: list[str], output: IO[bytes]) -> None:
        super().__init__(daemon=True)
        self._commands, self._output = commands, output
        self._process: subprocess.Popen[bytes] | None = None
        self.failed: list[str] = []

    def run(self) -> None:
        while self._commands:
            command = self._commands.pop(0)
            self._process = subprocess.Popen(
                shlex.split(command), stdout=self._output, stderr=subprocess.STDOUT, start_new_session=True
            )
            if self._process.wait():
                self.failed.append(command)

    def stop(self) -> None:
        """Kill what runs now, with all that it started."""
        self._commands = []
        if self._process is not None and self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)


def main(first: str, *others: str) -> int:
    """Return 0 if all commands succeeded."""
    with tempfile.TemporaryFile() as output:
        meanwhile = InTurn(list(others), output)
        meanwhile.start()
        try:
            status = subprocess.run(shlex.split(first), check=False).returncode
            meanwhile.join()
        except KeyboardInterrupt:
            meanwhile.stop()
            return INTERRUPTED
        output.seek(0)
        sys.stdout.write(output.read().decode(errors="replace"))
    for command in meanwhile.failed:
        print(f"failed: {command}", file=sys.stderr)
    return status or int(bool(meanwhile.failed))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
