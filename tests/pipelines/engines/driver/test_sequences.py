"""Random sequences of what befalls a stage, its driver and the API server: no orphan, no double work, a true ledger."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipelines.engines.driver.api import Cluster
from pipelines.engines.driver.causes import DISRUPTIONS
from pipelines.engines.driver.driver import Stopped
from pipelines.engines.driver.reap import reap
from tests.pipelines.engines.driver.drives import Drive, Killed, drive_of, kills
from tests.pipelines.engines.driver.test_chaos import EVENTS, check_end
from tests.support.api_server.cluster import NAMESPACE, SimulatedCluster

DRIVER = ["killed", "killed after", "stopped", "long silence", "reaped"]
NAMES = [*EVENTS, *DRIVER, *3 * ["runs"]]


def step_of(drive: Drive, name: str):
    """Return what a word of the sequence does."""
    if name == "killed":
        return kills(drive, Killed)
    if name == "killed after":
        return kills(drive, Killed, after=True)
    if name == "stopped":
        return kills(drive, lambda: Stopped("stopped by SIGTERM"))
    if name == "long silence":
        return lambda world: setattr(world, "seconds", world.seconds + 200)
    if name == "reaped":
        return lambda world: reap_now(drive, world)
    return drive.own[name] if name in drive.own else EVENTS[name]


def reap_now(drive: Drive, world: SimulatedCluster) -> None:
    """Let a driver that is gone be reaped: what it left is deleted, and its lease with it."""
    if not drive.ends:
        return
    for lease in world.objects.list("leases", NAMESPACE):
        world.objects.delete("leases", NAMESPACE, lease["metadata"]["name"])


def whatever_happens(names: list[str], kind: str, retries: int, bookmarks: bool) -> None:
    """Check the ends of drivers under one sequence."""
    with tempfile.TemporaryDirectory() as folder, drive_of(Path(folder), kind, retries=retries) as drive:
        drive.world.bookmarks = bookmarks
        drive.world.steps = [step_of(drive, name) for name in names]
        code = drive.drive()
        drive.world.faults.clear()
        check_end(drive, code)
        causes = drive.record.causes
        own = [cause for cause in causes if cause not in DISRUPTIONS and cause != "done"]
        assert len(own) <= retries + 1
        assert code == 0 or own, "a stage fails by its own doing only"
        assert reap(Cluster(drive.url), NAMESPACE, drive.world.now() + 4 * 86_400) == []


def check_sequences(**options: Any) -> None:
    """Check as many sequences as the options of hypothesis say."""
    given_these = given(
        names=st.lists(st.sampled_from(NAMES), max_size=12),
        kind=st.sampled_from(["Job", "JobSet", "TrainJob"]),
        retries=st.integers(0, 2),
        bookmarks=st.booleans(),
    )
    quiet = {"deadline": None, "database": None, "suppress_health_check": list(HealthCheck)}
    settings(**quiet, **options)(given_these(whatever_happens))()


def test_some_sequences() -> None:
    check_sequences(max_examples=25, derandomize=True)


@pytest.mark.slow
def test_many_sequences() -> None:
    check_sequences(max_examples=250)
