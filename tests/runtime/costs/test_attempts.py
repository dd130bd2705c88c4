"""Attempts: every try leaves a record, however it ends, and no change of the clock makes it wrong."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.contract.job import Job, Resources
from components.runtime.costs.amounts import total
from components.runtime.costs.attempts import (
    MAX_SIGN_SECONDS,
    Attempt,
    attempts_of,
    next_sign,
    note_end,
    put_attempt,
)
from components.runtime.job.metering import Meter
from components.runtime.ledger.records import save_job
from components.runtime.store import Store, open_store
from components.runtime.upkeep.verify import verify

ROOT = Path(__file__).parents[3]
PLUGIN = ROOT / "tests" / "pipelines" / "plugin"
LIMIT_SECONDS = 60.0
NODES = Resources(pool="h100x16", cpus=96, gpus=8, nodes=2)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "store"))


def job(store: Store, **changes: object) -> Job:
    fixed = {"run_id": "r", "recipe": "toy", "stage": "train", "component": "toy-train", "inputs": {}, "seed": 0}
    return Job.model_validate({**fixed, "store": store.uri, "params": {}, **changes})


def attempts(store: Store, stage: str = "train") -> list[Attempt]:
    return attempts_of(store, "r")[0].get(stage, [])


def open_attempt(started: datetime, seconds: float, stage: str = "train") -> Attempt:
    plain = {"run_id": "r", "stage": stage, "attempt": f"{started.timestamp():.0f}", "cpu_seconds": 1.0, "pool": "cpu"}
    return Attempt(**plain, started=started, seconds=seconds, nodes=1, processes=1, gpus=0, cpus=1)


def test_a_meter_records_what_a_job_holds_on_all_its_nodes(store):
    with Meter(store, job(store, resources=NODES), processes=16, own_process=False):
        (open_one,) = attempts(store)
        assert (open_one.end, open_one.gpus, open_one.cpus, open_one.processes) == ("running", 16, 192, 16)
    (ended,) = attempts(store)
    assert ended.end == "succeeded" and ended.seconds >= open_one.seconds >= 0 and ended.waited_seconds is None


def test_how_it_ended_is_said_once(store):
    with pytest.raises(RuntimeError), Meter(store, job(store), processes=1, own_process=False) as meter:
        raise RuntimeError
    meter.end("succeeded")
    assert [attempt.end for attempt in attempts(store)] == ["failed"]


def test_a_clock_that_jumps_changes_no_duration(store, monkeypatch):
    meter = Meter(store, job(store), processes=1, own_process=False)
    with meter:
        monkeypatch.setattr(time, "time", lambda: 0.0)  # 1970
    (ended,) = attempts(store)
    assert 0 <= ended.seconds < LIMIT_SECONDS


@given(behind=st.floats(-1e6, 1e6), seconds=st.floats(0, 1e6))
def test_a_death_adds_at_most_the_time_until_the_next_sign_was_due(tmp_path_factory, behind, seconds):
    store = open_store(str(tmp_path_factory.mktemp("store")))
    put_attempt(store, open_attempt(datetime.now(UTC) - timedelta(seconds=seconds + behind), seconds))
    note_end(store, "r", "train", "killed")
    (ended,) = attempts(store)
    assert ended.end == "killed"
    assert seconds <= ended.seconds <= seconds + next_sign(seconds) <= seconds + max(1, min(MAX_SIGN_SECONDS, seconds))
    assert ended.amount(None).hours >= 0


def test_ended_attempts_and_those_of_other_stages_stay_as_they_are(store):
    now = datetime.now(UTC)
    done = open_attempt(now - timedelta(hours=2), 5.0).model_copy(update={"end": "failed"})
    other = open_attempt(now, 3.0, stage="train-more")
    put_attempt(store, done)
    put_attempt(store, other)
    note_end(store, "r", "train", "killed")
    assert attempts(store) == [done] and attempts(store, "train-more") == [other]


def test_a_damaged_record_is_named_and_the_others_count(store):
    put_attempt(store, open_attempt(datetime.now(UTC), 3600.0))
    bad = open_attempt(datetime.now(UTC) - timedelta(days=1), 1.0)
    store.blobs.write(bad.key, b"{}")
    store.put("ledger/r/attempts/train.0-x.json", {"seconds": -5})
    found, unreadable = attempts_of(store, "r")
    assert total(a.amount(None) for a in found["train"]).cpu_hours == 1.0
    assert unreadable == sorted([bad.key, "ledger/r/attempts/train.0-x.json"])


def test_repair_sets_a_damaged_attempt_aside_and_says_what_that_costs(store):
    attempt = open_attempt(datetime.now(UTC), 1.0)
    store.blobs.write(attempt.key, b"{}")
    (damage,) = verify(store, repair=True).damage
    assert damage.key == attempt.key and damage.outcome.endswith(
        "the cost of its run is without this attempt from now on"
    )
    assert not list(store.keys("ledger/r/attempts/"))


def process(store: Store, **params: object) -> subprocess.Popen[str]:
    save_job(store, job(store, params=params))
    command = [sys.executable, "-m", "components.runtime.job.process", "--store", store.uri, "--run", "r"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(PLUGIN)])}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([*command, "--stage", "train"], env=environment, **pipes)


def test_a_killed_attempt_counts_beside_the_one_that_succeeds(store):
    """SIGKILL, which no process survives to record, and then the same job again."""
    killed = process(store, spin=True)
    deadline = time.monotonic() + LIMIT_SECONDS
    while not (shown := attempts(store)) or shown[0].cpu_seconds < 0.5:  # it works, and has shown life since it began
        with suppress(subprocess.TimeoutExpired):
            killed.wait(0.05)
        assert killed.returncode is None and time.monotonic() < deadline, killed.communicate()
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    (first,) = attempts(store)
    assert first.end == "running" and first.seconds >= first.cpu_seconds * 0.9 > 0
    again = process(store, factor=3)
    out, _ = again.communicate(timeout=LIMIT_SECONDS)
    assert again.returncode == 0, out
    before, second = attempts(store)
    assert (before, second.end) == (first, "succeeded")
    whole = total(attempt.amount(None) for attempt in attempts(store))
    assert whole.cpu_hours == pytest.approx((first.seconds + second.seconds) / 3600)
    note_end(store, "r", "train", "killed")  # what an engine does that sees the death
    assert [attempt.end for attempt in attempts(store)] == ["killed", "succeeded"]
