"""SIGKILL a fork's own process at random instants, again and again: it ends in the bytes of the run that it is of."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from components.contract.job import Fork, Job
from components.runtime.ledger.records import run_key, save_job, stage_key
from components.runtime.store import Store, open_store

ROOT = Path(__file__).parents[3]
PLUGIN = ROOT / "tests" / "pipelines" / "plugin"
LAUNCHER = "components.runtime.job.process"
STEPS, EVERY, AT = 400, 50, (50, 100, 150, 200, 250, 300)


@pytest.mark.parametrize("kills", [3, pytest.param(25, marks=pytest.mark.slow)])
def test_a_fork_killed_at_random_instants_ends_in_the_same_bytes(tmp_path: Path, kills: int) -> None:
    store = open_store(str(tmp_path / "store"))
    parent = run(store, "parent", keep_partial=EVERY)
    chance, killed = random.Random(kills), 0
    for step in AT:
        fork = Fork(run="parent", step=step)
        prepare(store, f"forked-{step}", fork=fork)
        while killed < kills and kill(store, f"forked-{step}", chance.uniform(0.3, 1.5)):
            killed += 1
        forked = run(store, f"forked-{step}", fork=fork)
        assert forked["outputs"] == parent["outputs"]
        assert (forked["cache"], forked["fork"]["step"]) == ("miss", step)
        if killed == kills:
            break
    print(f"{killed} kills of forks at {AT[: AT.index(step) + 1]}")
    assert killed >= kills // 2


def kill(store: Store, run_id: str, seconds: float) -> bool:
    """Start the job and SIGKILL it after some time; return whether it was still going on."""
    process = start(store, run_id)
    try:
        process.communicate(timeout=seconds)
        return False
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return True


def prepare(store: Store, run_id: str, **fields: object) -> None:
    """Write a run with one stage, and its job."""
    store.put(run_key(run_id), {"run_id": run_id, "recipe": "test", "stages": [{"name": "count"}]})
    plain = {"component": "toy-count", "inputs": {}, "recipe": "test", "seed": 0, "store": store.uri}
    job = Job.model_validate({**plain, "run_id": run_id, "stage": "count", "params": {"steps": STEPS}, **fields})
    save_job(store, job)


def start(store: Store, run_id: str) -> subprocess.Popen[str]:
    """Start the job in a process group of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", LAUNCHER, "--store", store.uri, "--run", run_id, "--stage", "count"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(PLUGIN), str(ROOT)])},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def run(store: Store, run_id: str, **fields: object) -> dict[str, Any]:
    """Run the job to its end and return its ledger entry."""
    prepare(store, run_id, **fields)
    process = start(store, run_id)
    told, _ = process.communicate(timeout=300)
    assert process.returncode == 0, told
    entry = store.get(stage_key(run_id, "count"))
    assert entry is not None
    return entry
