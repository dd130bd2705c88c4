"""A run that moves from the local engine to Kubeflow and back, in the middle of a stage: equal digests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from components.runtime.checkpoints.moves import ask, asked, hand_over
from components.runtime.ledger.ledger import load_run
from components.runtime.ledger.shown import show_json
from components.runtime.store import open_store
from tests.pipelines.engines.kubeflow.examples import project_environment
from tests.pipelines.engines.kubeflow.test_forks import COUNTING, command
from tests.support.command_line import caches, digests
from tests.support.moving import LIMIT_SECONDS, counting, until
from tests.support.pipeline_runner import PipelineRun, load_pipeline

STEPS = "stages.count.with.steps=300"


def test_local_kubeflow_local(tmp_path: Path) -> None:
    (tmp_path / "straight").mkdir()
    apart = project_environment(tmp_path / "straight")
    straight = json.loads(command(apart, "run", str(COUNTING), "--set", STEPS, "--json"))
    project = project_environment(tmp_path)
    store = open_store(project["POSTTRAIN_STORE"])
    here = subprocess.Popen(
        [sys.executable, "-m", "pipelines.cli", "run", str(COUNTING), "--set", STEPS],
        env={**os.environ, **project},
        stdout=subprocess.PIPE,
        text=True,
    )
    first = until(lambda: counting(store, set()))
    ask(store, first, "kubeflow")
    here.communicate(timeout=LIMIT_SECONDS)
    (one,) = hand_over(store, first, tmp_path / "a", pytest.fail, wait_seconds=LIMIT_SECONDS)

    before = set(store.names("ledger/"))
    pipeline = load_pipeline(
        command(project, "compile", str(COUNTING), "--set", STEPS, "--set", f"moved={first}", "-o", "-")
    )
    given = {"posttrain_store": project["POSTTRAIN_STORE"]}
    run = PipelineRun(pipeline, tmp_path / "work", "k-second", given, environment=project)
    with ThreadPoolExecutor() as pool:
        ended = pool.submit(run.run)
        second = until(lambda: counting(store, before) if not ended.done() else ended.result())
        ask(store, second, "local")
        assert ended.result() == "FAILED"
    log = "\n".join(str(task.log) for task in run.tasks.values())
    assert one.digest in log, "its stage says which state it goes on from"
    assert "the run continues on engine local" in log
    assert (asked(store, first) or {})["as"] == second
    shown = show_json(load_run(store, second))
    assert [stage["error"] for stage in shown["stages"]] == [None, None, None], "it has not failed"

    last = json.loads(command(project, "move", second, "--to", "local", "--recipe", str(COUNTING), "--json"))
    assert last["status"] == "succeeded" and last["moved"] == second
    assert digests(last) == digests(straight)
    assert caches(last) == {"base": "hit", "count": "miss", "score": "miss"}
