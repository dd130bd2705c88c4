"""GateProcess: data gates in a worker process, which imports Great Expectations while the stage runs."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from components.contract.errors import InputError, StageFailed
from components.contract.job import Expectation
from components.runtime.gates import worker

GATE_LIBRARY = "components.runtime.gates.library"
"""Imports what data gates need; an engine that forks jobs may import it once, before it forks."""
GATES_PREPARED = "components.runtime.gates.prepared"
"""Imports the rest of what a check uses, in a process that has the library."""

WORKER = "components.runtime.gates.worker"
ROOT = Path(__file__).parents[3]
LIMIT_SECONDS = 3600.0
STDERR_LINES = 5


@dataclass(frozen=True)
class GateResult:
    """Result of a data gate on the rows of one output."""

    success: bool
    failures: list[str]
    """One line each: expectation, column, number of rows, some of their values and positions."""
    statistics: dict[str, int]
    """rows, columns, checks and failed; empty if the rows could not be read."""


class GateProcess:
    """Checks rows in a worker process. As a context manager, it starts the worker on entry and ends it on exit.

    With `needed=False` the worker starts only when `check` is called. With `here=True` there is no worker: a process
    that was forked with the library imported, like the local engine's jobs, has no import time to hide.
    """

    def __init__(self, *, needed: bool = True, here: bool = False, limit_seconds: float = LIMIT_SECONDS) -> None:
        self.needed, self.here = needed, here
        self.limit_seconds = limit_seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._stderr: IO[bytes] | None = None

    def start(self) -> None:
        """Start the worker and return at once; it is ready some seconds later."""
        if self._process is not None or self.here:
            return
        environment = {**os.environ, "GX_ANALYTICS_ENABLED": "false", "OMP_NUM_THREADS": "1"}
        environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  closed with the worker
        self._process = subprocess.Popen(
            [sys.executable, "-m", WORKER, str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env=environment,
        )

    def check(self, port: str, folder: Path, kind: str, expectations: list[Expectation], report: Path) -> GateResult:
        """Check the rows in `folder` by the suite of `kind` and further expectations; fill the folder `report`.

        `report` gets results.json and index.html (Data Docs), deterministic for the same rows. Raises InputError for
        an unknown expectation or wrong arguments, StageFailed if the worker ends or takes too long.
        """
        self.start()
        report.mkdir(parents=True, exist_ok=True)
        request = {
            "port": port,
            "folder": str(folder.absolute()),
            "kind": kind,
            "expectations": [item.model_dump(mode="json") for item in expectations],
            "report": str(report.absolute()),
        }
        answer = worker.answer(request) if self.here else self._ask(request)
        if "refused" in answer:
            raise InputError(f"output {port!r}: {answer['refused']}")
        results = answer["results"]
        return GateResult(results["success"], results["failures"], results["statistics"])

    def close(self) -> None:
        """Kill the worker, whatever it is doing."""
        if self._process is None or self._stderr is None:
            return
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._stderr):
            if stream is not None:
                stream.close()
        self._process = self._stderr = None

    def __enter__(self) -> GateProcess:
        if self.needed:
            self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        process = self._process
        assert process is not None and process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
            line = self._read_line(process.stdout)
        except BrokenPipeError:
            line = b""
        if not line.endswith(b"\n"):
            raise self._ended(request["port"])
        return json.loads(line)

    def _read_line(self, stream: IO[bytes]) -> bytes:
        """Return the next line, or the part of it that arrived before the worker ended."""
        deadline = time.monotonic() + self.limit_seconds
        line = b""
        with selectors.DefaultSelector() as selector:
            selector.register(stream, selectors.EVENT_READ)
            while not line.endswith(b"\n"):
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise StageFailed(f"data gate: no answer within {self.limit_seconds:.0f} s")
                received = os.read(stream.fileno(), 1 << 16)
                if not received:
                    break
                line += received
        return line

    def _ended(self, port: str) -> StageFailed:
        process, stderr = self._process, self._stderr
        assert process is not None and stderr is not None
        code = process.wait()
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        stderr.seek(0)
        said = stderr.read().decode(errors="replace").strip().splitlines()[-STDERR_LINES:]
        self.close()
        reason = f": {' | '.join(said)}" if said else ""
        return StageFailed(
            f"data gate of output {port!r}: its worker {how}{reason}. "
            "Memory may have run out, or great-expectations may not be installed; then run again."
        )
