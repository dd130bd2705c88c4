"""A real MLflow server on a port of this machine, and what its database holds."""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

START_SECONDS = 300


@contextmanager
def serving(database: Path, port: int) -> Iterator[None]:
    """Run an MLflow server on `database` until the end of the block; uploads go to `artifacts` beside it."""
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    command += ["--backend-store-uri", f"sqlite:///{database}"]
    command += ["--artifacts-destination", str(database.parent / "artifacts")]
    variables = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    with serving_command(command, variables, database.parent, port):
        yield


@contextmanager
def serving_command(command: list[str], variables: Mapping[str, str], folder: Path, port: int) -> Iterator[None]:
    """Run a command that serves MLflow on a port, with `variables` too, until the end of the block."""
    log = folder / "server.log"
    with log.open("wb") as output:
        server = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **variables},
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + START_SECONDS
        while not _healthy(port):
            running = server.poll() is None and time.monotonic() < deadline
            assert running, f"the MLflow server did not start: {log.read_text()[-2000:]}"
            time.sleep(0.1)
        yield
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def closed_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def rows_of(database: Path, query: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query on MLflow's database."""
    with closing(sqlite3.connect(database)) as connection:
        return connection.execute(query).fetchall()


def _healthy(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1):
            return True
    except OSError:
        return False
