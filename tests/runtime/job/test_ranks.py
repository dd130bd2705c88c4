"""A job on several processes: one outcome, clear ends, exact resume, however the processes were started."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from components.contract.job import Job, Resources
from components.runtime.ledger.records import failure_key, save_job, stage_key
from components.runtime.store import Store, open_store

pytestmark = pytest.mark.deepspeed

ROOT = Path(__file__).parents[3]
PLUGIN = Path(__file__).parents[1] / "ranks_plugin"
TORCHRUN = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "0", "--rdzv-backend", "c10d")
DEEPSPEED = ("-m", "deepspeed.launcher.runner", "--num_gpus", "2", "--module")
TWO = Resources(trainer="deepspeed", zero_stage=0, processes=2)
NOW = "(now recompute: false, zero_stage: 0, offload: none, processes: 2)"
ADVICE = f"turn steps: 1, or take a larger pool {NOW}; it was estimated to need, in GiB: sums 3"
Start = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "store"))


@pytest.fixture
def start(tmp_path: Path, store: Store) -> Start:
    """Run a job of the plug-in's component as a container would, and wait for its end."""

    def run(*, launcher: tuple[str, ...] = (), resources: Resources = TWO, run_id: str = "r", **params: Any) -> Any:
        params = {"once": str(tmp_path / "once"), **params}
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
        if launcher == DEEPSPEED:
            command = [sys.executable, *DEEPSPEED[:-1], "--master_port", str(free_port()), *DEEPSPEED[-1:]]
        else:
            command = [sys.executable, *launcher, "-m"]
        command += ["components.runtime.job.process"]
        where = ["--store", store.uri, "--run-id", run_id, "--stage", "add"]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(PLUGIN)]), "OMP_NUM_THREADS": "1"}
        environment |= {"DS_ACCELERATOR": "cpu"}
        return subprocess.run([*command, *where], capture_output=True, text=True, env=environment, timeout=240)

    return run


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def entry(store: Store, run_id: str = "r") -> dict[str, Any]:
    found = store.get(stage_key(run_id, "add"))
    assert found is not None
    return found


@pytest.mark.parametrize("launcher", [(), TORCHRUN, DEEPSPEED], ids=["own", "torchrun", "deepspeed"])
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
    said = "rank 1 of 2 was killed by SIGKILL (by a person, or by the system when memory ran out); its last words: "
    said += "about to\\x1b[2J fall"
    record = store.get(failure_key("r", "add"))
    assert record is not None
    assert record["error"] == f"stage 'add': {said}; {ADVICE}"
    assert failed.stderr.splitlines()[-1].startswith(f"posttrain: stage 'add': {said}")
    retried = start(how="kill")
    assert retried.returncode == 0, retried.stderr
    assert '"resumed_from": 1' in retried.stdout
    assert entry(store)["metrics"] == {"total": 18.0, "rows": 3.0}


def test_a_stopped_rank_is_named_long_before_a_collective_times_out(
    start: Start, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POSTTRAIN_RANK_SECONDS", "2")
    failed = start(how="stop")
    assert failed.returncode == 1
    record = store.get(failure_key("r", "add"))
    assert record is not None
    assert record["error"] == (
        "stage 'add': rank 1 of 2 showed no sign of life for 2 s (POSTTRAIN_RANK_SECONDS): its process is stopped, "
        "or its node is gone; it was last seen at a place outside of posttrain"
    )
    monkeypatch.delenv("POSTTRAIN_RANK_SECONDS")
    retried = start(how="stop")
    assert retried.returncode == 0, retried.stderr
    assert '"resumed_from": 1' in retried.stdout
    assert entry(store)["metrics"] == {"total": 18.0, "rows": 3.0}


def test_ranks_that_wait_in_vain_say_for_how_long_and_where(
    start: Start, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POSTTRAIN_COLLECTIVE_SECONDS", "20")
    failed = start(how="wait")
    assert failed.returncode == 1
    record = store.get(failure_key("r", "add"))
    assert record is not None
    assert record["error"].startswith(
        "stage 'add': ranks waited 20 s for one another in vain (POSTTRAIN_COLLECTIVE_SECONDS)"
    )
    monkeypatch.delenv("POSTTRAIN_COLLECTIVE_SECONDS")
    retried = start(how="wait")
    assert retried.returncode == 0, retried.stderr


def test_another_number_of_processes_says_which_one_goes_on(start: Start, store: Store) -> None:
    """From two to one and from one to two: each begins anew, says where the checkpoint is, and leaves it there."""
    assert start(how="kill").returncode == 1
    alone = start(resources=Resources(), run_id="alone", how="kill")
    assert alone.returncode == 0, alone.stderr
    assert "the checkpoint of step 1 was made on 2 processes, and this attempt, on 1, begins anew" in alone.stdout
    assert "`backend: {trainer: deepspeed, zero_stage: 0}` on 2 in all goes on from it" in alone.stdout
    assert entry(store, "alone")["metrics"]["total"] == 6.0
    again = start(how="kill")
    assert again.returncode == 0 and '"resumed_from": 1' in again.stdout
    failed = start(resources=Resources(), run_id="one", how="raise", victim=0, steps=4, once=f"{store.uri}-once")
    assert failed.returncode == 1
    both = start(run_id="two", how="raise", victim=0, steps=4, once=f"{store.uri}-once")
    assert both.returncode == 0, both.stderr
    assert "the checkpoint of step 1 was made on 1 process, and this attempt, on 2, begins anew" in both.stdout
    assert "`backend: {trainer: torch}` on 1 in all goes on from it" in both.stdout
    one = start(resources=Resources(), run_id="one", how="raise", victim=0, steps=4, once=f"{store.uri}-once")
    assert one.returncode == 0 and '"resumed_from": 1' in one.stdout


def test_the_error_of_another_rank_is_the_stages(start: Start, store: Store) -> None:
    failed = start(how="raise")
    assert failed.returncode == 1
    record = store.get(failure_key("r", "add"))
    assert record is not None
    assert record["error"] == "stage 'add': rank 1 of 2: RuntimeError: the card fell off"


def test_another_rank_without_memory_says_what_to_turn(start: Start, store: Store) -> None:
    failed = start(how="hunger")
    assert failed.returncode == 1
    record = store.get(failure_key("r", "add"))
    assert record is not None
    said = record["error"]
    assert said.startswith("stage 'add': rank 1 of 2: RuntimeError: ") and "can't allocate memory" in said
    assert said.endswith(f"; {ADVICE}")


def test_the_launcher_of_deepspeed_ends_with_a_rank_that_fails(start: Start, store: Store) -> None:
    failed = start(launcher=DEEPSPEED, how="raise")
    assert failed.returncode != 0
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
