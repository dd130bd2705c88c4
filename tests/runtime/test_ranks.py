"""A job on several processes: one outcome, clear ends, exact resume, however the processes were started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from components.contract.job import Job, Resources
from components.runtime.records import failure_key, save_job, stage_key
from components.runtime.store import Store, open_store

pytestmark = pytest.mark.deepspeed

ROOT = Path(__file__).parents[2]
PLUGIN = Path(__file__).parent / "ranks_plugin"
TORCHRUN = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "0", "--rdzv-backend", "c10d")
TWO = Resources(trainer="deepspeed", zero_stage=0, processes=2)
Start = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "store"))


@pytest.fixture
def start(tmp_path: Path, store: Store) -> Start:
    """Run a job of the plug-in's component as a container would, and wait for its end."""

    def run(*, launcher: tuple[str, ...] = (), resources: Resources = TWO, run_id: str = "r", **params: Any) -> Any:
        params |= {"once": str(tmp_path / "once")}
        job = Job(
            run_id=run_id,
            recipe="toy",
            stage="add",
            component="add-ranks",
            inputs={},
            seed=0,
            store=store.uri,
            params=params,
            resources=resources,
        )
        save_job(store, job)
        command = [sys.executable, *launcher, "-m", "components.runtime.process"]
        where = ["--store", store.uri, "--run-id", run_id, "--stage", "add"]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(PLUGIN)]), "OMP_NUM_THREADS": "1"}
        return subprocess.run([*command, *where], capture_output=True, text=True, env=environment, timeout=240)

    return run


def entry(store: Store, run_id: str = "r") -> dict[str, Any]:
    found = store.get(stage_key(run_id, "add"))
    assert found is not None
    return found


@pytest.mark.parametrize("launcher", [(), TORCHRUN], ids=["own", "torchrun"])
def test_two_ranks_make_one_result(start: Start, store: Store, launcher: tuple[str, ...]) -> None:
    done = start(launcher=launcher)
    assert done.returncode == 0, done.stderr
    assert entry(store)["metrics"] == {"total": 18.0, "rows": 3.0}  # (1 + 2 + 3) * (1 + 2)
    assert done.stdout.count('"event": "started"') == 1  # the other rank has no voice
    assert (store.fetch(entry(store)["outputs"]["model"]["digest"]) / "total.json").read_text() == "18"
    again = start(launcher=launcher, run_id="later")
    assert (again.returncode, entry(store, "later")["cache"]) == (0, "hit")


def test_a_killed_rank_ends_the_stage_and_the_retry_goes_on(start: Start, store: Store) -> None:
    failed = start(how="kill")
    assert failed.returncode == 1
    said = "rank 1 of 2 was killed by SIGKILL (by a person, or by the system when memory ran out)"
    record = store.get(failure_key("r", "add"))
    assert record is not None
    assert record["error"].startswith(f"stage 'add': {said}")
    assert failed.stderr.splitlines()[-1].startswith(f"posttrain: stage 'add': {said}")
    retried = start(how="kill")
    assert retried.returncode == 0, retried.stderr
    assert '"resumed_from": 1' in retried.stdout
    assert entry(store)["metrics"] == {"total": 18.0, "rows": 3.0}


def test_the_error_of_another_rank_is_the_stages(start: Start, store: Store) -> None:
    failed = start(how="raise")
    assert failed.returncode == 1
    record = store.get(failure_key("r", "add"))
    assert record is not None
    assert record["error"] == "stage 'add': rank 1 of 2: RuntimeError: the card fell off"


def test_a_rank_that_leaves_in_the_middle_is_named(start: Start, store: Store) -> None:
    """Its exit code says that all is well."""
    failed = start(how="leave")
    assert failed.returncode == 1
    record = store.get(failure_key("r", "add"))
    assert record is not None
    assert record["error"] == "stage 'add': rank 1 of 2 ended with exit code 0 before the stage was done"


def test_a_killed_first_rank_leaves_nobody_behind(start: Start, store: Store) -> None:
    killed = start(how="kill", victim=0)  # returns once all have closed the streams that they share
    assert killed.returncode == -signal.SIGKILL
    retried = start(how="kill", victim=0)
    assert retried.returncode == 0, retried.stderr
    assert '"resumed_from": 1' in retried.stdout
    assert entry(store)["metrics"] == {"total": 18.0, "rows": 3.0}


def test_torchrun_must_start_what_the_job_asks_for(start: Start) -> None:
    three = Resources(trainer="deepspeed", zero_stage=0, processes=3)
    refused = start(launcher=TORCHRUN, resources=three)
    assert refused.returncode != 0
    assert "stage 'add' trains on 3 processes, 3 on each of 1 nodes, but 2 were started" in refused.stderr


def test_several_nodes_need_torchrun(start: Start) -> None:
    refused = start(resources=Resources(trainer="deepspeed", zero_stage=0, nodes=2))
    assert refused.returncode == 2
    assert "trains on 2 nodes: start it by torchrun on each of them" in refused.stderr
