"""A stage as a process on Airflow's worker, in the components' own virtual environment. Imports no Airflow.

It has a session of its own, so that all of it can be ended at once, and it dies with the task that started it: neither
a killed task nor a killed scheduler leaves one behind.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from components.contract.job import Job
from components.runtime.job.process import READY
from components.runtime.system.code import ROOT, VARIABLE, code_version
from pipelines.engines.shared.attempt import ENVIRONMENT, Ended, ended

PYTHON = "POSTTRAIN_PYTHON"
"""Interpreter of the environment that holds the stages' libraries; .venv beside the code unless set."""
READ_BYTES = 1 << 16

OnEvent = Callable[[dict[str, Any]], None]
OnLine = Callable[[str], None]


def stage_python(environ: Mapping[str, str] = os.environ) -> str:
    """Return the interpreter that runs stages and reports."""
    own = ROOT / ".venv" / "bin" / "python"
    return environ.get(PYTHON) or (str(own) if own.exists() else sys.executable)


def stage_environment(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the variables of a stage's process: ours, and none of Airflow's, which hold its secrets."""
    kept = {name: value for name, value in environ.items() if not name.lstrip("_").startswith("AIRFLOW")}
    return {**kept, **ENVIRONMENT, VARIABLE: json.dumps(code_version())}


def stage_command(job: Job) -> list[str]:
    """Return the command that runs a job which the store holds; it ends when this process does."""
    where = ["--store", job.store, "--run", job.run_id, "--stage", job.stage]
    return [
        stage_python(),
        "-m",
        "components.runtime.job.process",
        *where,
        "--keep-timeout",
        "--parent",
        str(os.getpid()),
    ]


class StageProcess:
    """One process whose output is read line by line."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], folder: Path = ROOT) -> None:
        self._process = subprocess.Popen(
            command,
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """Return the process's id, which is that of its session, too."""
        return self._process.pid

    def follow(self, on_event: OnEvent, on_line: OnLine) -> Ended:
        """Hand on events and other lines until the process has ended; return how it did."""
        finished, failure, last = False, None, ""
        for line in self._lines():
            event = _event(line)
            if event is None:
                last = line if line.strip() else last
                on_line(line)
                continue
            if event["event"] == READY:
                continue
            finished = finished or event["event"] == "finished"
            failure = event["error"] if event["event"] == "failed" else failure
            on_event(event)
        return ended(self._process.wait(), finished=finished, failure=failure, last_line=last)

    def kill(self) -> None:
        """End the whole session; a stage is resumable at any instant, so nobody needs a polite signal."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        self._process.wait()

    def _lines(self) -> Any:
        """Yield the lines of both outputs as they come; bytes that are no text are shown as such."""
        assert self._process.stdout is not None and self._process.stderr is not None
        rest = {self._process.stdout: b"", self._process.stderr: b""}
        with selectors.DefaultSelector() as selector:
            for stream in rest:
                selector.register(stream, selectors.EVENT_READ)
            while selector.get_map():
                for key, _ in selector.select():
                    stream: Any = key.fileobj
                    data = os.read(stream.fileno(), READ_BYTES)
                    *lines, rest[stream] = (rest[stream] + data).split(b"\n")
                    if not data:
                        selector.unregister(stream)
                        lines, rest[stream] = ([rest[stream]] if rest[stream] else []), b""
                    for line in lines:
                        yield line.decode(errors="backslashreplace").rstrip("\r")


def _event(line: str) -> dict[str, Any] | None:
    """Return the progress event that a line is, or None for what a stage or a library printed."""
    if not line.startswith('{"'):
        return None
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) and {"event", "stage", "time"} <= value.keys() else None
