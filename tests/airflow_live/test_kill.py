"""Kills in the middle of RL: a task, the scheduler, everything. Each ends in the bytes of a run that was not killed."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from tests.support.command_line import digests
from tests.support.live_airflow import Live, parent_of, until

pytestmark = pytest.mark.airflow
STEPS = {"task": 60, "scheduler": 61, "everything": 62}
"""Each kill has a run of its own to spoil: another number of steps is another fingerprint."""


@pytest.fixture(scope="module")
def straight(live: Live, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The same runs by the local engine, not killed; what stands before RL is made once, for Airflow, too."""
    store = tmp_path_factory.mktemp("straight") / "store"
    live.local(store, "long-rl", "--set", "rl_steps=1")
    shutil.copytree(store, Path(live.environment["POSTTRAIN_STORE"]), dirs_exist_ok=True)
    return {name: live.local(store, "long-rl", "--set", f"rl_steps={steps}") for name, steps in STEPS.items()}


@pytest.fixture
def never_twice(live: Live) -> Iterator[None]:
    """Fails the test if two processes of the stage ever work at the same time."""
    stop, most = Event(), [0]

    def look() -> None:
        while not stop.wait(0.1):
            most[0] = max(most[0], len(live.stages("rl")))

    thread = Thread(target=look)
    thread.start()
    yield
    stop.set()
    thread.join()
    assert most[0] == 1


def begin(live: Live, name: str) -> tuple[str, int]:
    """Start a run and wait until RL has made some steps; return its path and the stage's process."""
    store = Path(live.environment["POSTTRAIN_STORE"])
    before = set(store.glob("partial/*/*"))
    path = live.trigger("long-rl", rl_steps=STEPS[name])
    until(lambda: len(set(store.glob("partial/*/*")) - before) >= 1 and live.stages("rl"), "RL in its middle")
    return path, live.stages("rl")[0]


def end(live: Live, path: str) -> Any:
    """Wait for the end of a run and return its `show --json`; RL went on from where it was killed."""
    assert live.wait(path, "success", "failed") == "success"
    live.wait(path, "success", "failed", task="run.report")
    run_id = live.client.get(f"{path}/taskInstances/run.plan/xcomEntries/return_value")["value"]["run_id"]
    tries = live.client.get(f"{path}/taskInstances/rl/tries")["task_instances"]
    assert len(tries) >= 2
    log = str(live.client.get(f"{path}/taskInstances/rl/logs/{len(tries)}"))
    assert "resumed from step" in log
    return live.show(run_id)


@pytest.mark.usefixtures("never_twice")
def test_a_killed_task_is_tried_again(live: Live, straight: dict[str, Any]) -> None:
    path, stage = begin(live, "task")
    os.kill(parent_of(stage), signal.SIGKILL)
    until(lambda: stage not in live.processes(), "the end of the stage's process")
    assert digests(end(live, path)) == digests(straight["task"])


@pytest.mark.usefixtures("never_twice")
def test_a_killed_scheduler_is_started_again(live: Live, straight: dict[str, Any]) -> None:
    path, stage = begin(live, "scheduler")
    [scheduler] = [pid for pid, line in live.processes().items() if "standalone.scheduler" in line]
    os.kill(scheduler, signal.SIGKILL)
    until(lambda: stage not in live.processes(), "the end of the stage's process")
    assert digests(end(live, path)) == digests(straight["scheduler"])


@pytest.mark.usefixtures("never_twice")
def test_everything_killed_at_once_goes_on_after_a_new_start(live: Live, straight: dict[str, Any]) -> None:
    path, _ = begin(live, "everything")
    os.killpg(live.guard, signal.SIGKILL)
    assert live.process is not None and live.process.wait(60) != 0
    until(lambda: not live.processes(), "no process of it being left")
    live.start()
    assert digests(end(live, path)) == digests(straight["everything"])


def test_a_stop_leaves_nothing_behind_and_spoils_nothing(live: Live) -> None:
    assert live.stop() == 0
    assert live.processes() == {}
    live.start()
