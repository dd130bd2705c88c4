"""An Airflow of the test's own: `posttrain airflow up` in a process, from start to a clean end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
START_SECONDS = 300.0
POLL_SECONDS = 0.5
STOP_SECONDS = 120.0
READY = "log in as"


@dataclass(frozen=True)
class OwnAirflow:
    """Where it answers, and for whom."""

    url: str
    user: str
    password: str
    process: subprocess.Popen[bytes]


@contextmanager
def own_airflow(store: Path, environment: Mapping[str, str] | None = None) -> Iterator[OwnAirflow]:
    """Start an Airflow beside a store and end it with SIGTERM; its exit code must be 0."""
    store.parent.mkdir(parents=True, exist_ok=True)
    log = store.parent / "airflow-up.log"
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [stages_python(), "-m", "pipelines.cli", "airflow", "up", "--store", str(store)],
            cwd=ROOT,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
        )
    try:
        _wait_ready(process, log)
        folder = store.parent / "airflow"
        address = json.loads((folder / "address.json").read_text())
        user, password = next(iter(json.loads((folder / "passwords.json").read_text()).items()))
        yield OwnAirflow(address["url"], user, password, process)
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(STOP_SECONDS)
    assert code == 0, f"posttrain airflow up ended with {code}"


def stages_python() -> str:
    """Return the interpreter of the environment in which people type `posttrain`."""
    own = ROOT / ".venv" / "bin" / "python"
    return os.environ.get("POSTTRAIN_PYTHON") or (str(own) if own.exists() else sys.executable)


def _wait_ready(process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while READY not in (said := log.read_text()):
        assert process.poll() is None, f"ended before it was ready:\n{said}"
        assert time.monotonic() < deadline, f"not ready after {START_SECONDS:.0f} s:\n{said}"
        time.sleep(POLL_SECONDS)
