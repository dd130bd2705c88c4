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
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

START_SECONDS = 90


@contextmanager
def serving(database: Path, port: int) -> Iterator[None]:
    """Run an MLflow server on `database` until the end of the block; uploads go to `artifacts` beside it."""
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    command += ["--backend-store-uri", f"sqlite:///{database}"]
    command += ["--artifacts-destination", str(database.parent / "artifacts")]
    environment = {**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    server = subprocess.Popen(
        command,
        cwd=database.parent,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + START_SECONDS
        while not _healthy(port):
            assert server.poll() is None and time.monotonic() < deadline, "the MLflow server did not start"
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
