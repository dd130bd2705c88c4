"""Attempts in processes of this machine: a timeout counts from when the process is there."""

from __future__ import annotations

import json
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Event

import pytest

from components.contract.job import Job
from components.runtime.job.process import READY
from pipelines.engines.local.job_process import run_attempt
from pipelines.engines.shared.attempt import Limit


def slow_to_start(job_json: str, events: Connection, log: str, environment: dict[str, str]) -> None:
    """Stand for a process that takes longer to start than its stage may take, and then does little."""
    time.sleep(0.7)
    for event in (READY, "finished"):
        events.send_bytes(json.dumps({"event": event, "stage": "s", "time": 0.0}).encode())
    events.close()
    sys.exit(0)


def test_the_start_of_a_process_is_none_of_the_stages_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.engines.local.job_process.run_forked", slow_to_start)
    job = Job(
        run_id="r", recipe="r", stage="s", component="c", params={}, inputs={}, seed=0, store="x", timeout_seconds=0.5
    )
    seen: list[str] = []
    end = run_attempt(job, tmp_path / "log", {}, lambda event: seen.append(event["event"]), Event())
    assert (end.code, seen) == (0, ["finished"]), end.error


def test_a_limit_begins_anew_when_the_process_is_there() -> None:
    limit = Limit(1e-9)
    assert not limit.is_over, "starting has a time of its own"
    limit.begin()
    time.monotonic()
    assert limit.is_over
    assert not Limit(None).is_over
