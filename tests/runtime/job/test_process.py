"""A job as a process that no engine watches: it finds its job in the store, keeps its timeout and logs for people."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from components.contract.job import Job
from components.runtime.job.rendezvous import RankPlace
from components.runtime.ledger.records import failure_key, save_job, stage_key
from components.runtime.store import open_store

ROOT = Path(__file__).parents[3]
PLUGIN = ROOT / "tests" / "pipelines" / "plugin"


@pytest.fixture
def run(tmp_path: Path) -> Any:
    """Run a job of the toy training in a process of its own; return the store and the process that has ended."""
    store = open_store(str(tmp_path / "store"))

    def start(*more: str, **job: Any) -> tuple[Any, subprocess.CompletedProcess[str]]:
        fixed = {"run_id": "r", "recipe": "toy", "stage": "train", "component": "toy-train", "inputs": {}, "seed": 0}
        save_job(store, Job(**{**fixed, "store": store.uri, "params": {}, **job}))
        command = [sys.executable, "-m", "components.runtime.job.process", "--store", store.uri]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(PLUGIN)])}
        where = ["--run", "r", "--stage", "train", *more]
        return store, subprocess.run([*command, *where], capture_output=True, text=True, env=environment, timeout=60)

    return start


def test_alone_it_writes_lines_for_people(run: Any) -> None:
    store, done = run("--alone", params={"factor": 3})
    assert done.returncode == 0
    first, last = done.stdout.splitlines()
    assert first.startswith("started  fingerprint ")
    assert last.startswith("finished  status done  cache miss  number 3  seconds ")
    assert store.get(stage_key("r", "train"))["metrics"] == {"number": 3.0}


def test_alone_it_ends_when_its_time_is_over(run: Any) -> None:
    store, done = run("--alone", params={"spin": True}, timeout_seconds=1)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "posttrain: stage 'train': took longer than its timeout of 1 s"
    assert store.get(failure_key("r", "train"))["error"] == "took longer than its timeout of 1 s"
    assert store.get(stage_key("r", "train")) is None


def test_a_failure_ends_in_the_line_that_says_why(run: Any) -> None:
    _, done = run("--alone", params={"fail": True})
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "posttrain: stage 'train': ValueError: told to fail"


def test_a_run_that_the_store_does_not_hold_is_refused(run: Any) -> None:
    store, done = run("--stage", "other")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"posttrain: store {store.uri} holds no job for stage 'other' of run 'r'\n"


def test_a_launcher_may_say_the_local_rank(run: Any) -> None:
    """That of DeepSpeed does; the environment says it, too."""
    _, done = run("--alone", "--local_rank=0", params={"factor": 3})
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("name", "node"), [("GROUP_RANK", 1), ("CROSS_RANK", 1), ("OTHER", 0)])
def test_launchers_name_the_node_each_in_their_way(monkeypatch: pytest.MonkeyPatch, name: str, node: int) -> None:
    given = {"RANK": "9", "WORLD_SIZE": "16", "LOCAL_RANK": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    for variable in (*given, "GROUP_RANK", "CROSS_RANK"):
        monkeypatch.delenv(variable, raising=False)
    assert RankPlace.of_environment() is None
    for variable, text in {**given, name: "1"}.items():
        monkeypatch.setenv(variable, text)
    assert RankPlace.of_environment() == RankPlace(rank=9, world=16, local_rank=1, node=node)
