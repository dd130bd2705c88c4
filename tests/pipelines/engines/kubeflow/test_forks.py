"""Forks of a pipeline's run, container by container: the same bytes, and the local engine's fork shares the work."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from components.runtime.ledger.ledger import load_run
from components.runtime.ledger.shown import show_json
from components.runtime.store import open_store
from tests.pipelines.engines.kubeflow.examples import ROOT, project_environment
from tests.support.command_line import caches, digests
from tests.support.pipeline_runner import PipelineRun, load_pipeline

COUNTING = ROOT / "tests" / "pipelines" / "engines" / "airflow" / "recipes" / "counting.yaml"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return project_environment(tmp_path_factory.mktemp("forks"))


def command(project: dict[str, str], *arguments: str) -> str:
    process = subprocess.run(
        [sys.executable, "-m", "pipelines.cli", *arguments],
        env={**os.environ, **project},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert process.returncode == 0, process.stderr
    return process.stdout


def on_kubeflow(project: dict[str, str], run_id: str, *overrides: str) -> dict[str, Any]:
    """Compile the recipe with overrides, run the pipeline, and return its `show --json`."""
    folder = Path(project["POSTTRAIN_STORE"]).parent
    changes = [part for text in overrides for part in ("--set", text)]
    text = command(project, "compile", str(COUNTING), *changes, "-o", "-")
    given = {"posttrain_store": project["POSTTRAIN_STORE"]}
    run = PipelineRun(load_pipeline(text), folder / "work", run_id, given, environment=project)
    assert run.run() == "SUCCEEDED", [task.log for task in run.tasks.values()]
    store = open_store(project["POSTTRAIN_STORE"])
    return show_json(load_run(store, store.get(f"kubeflow/{run_id}.json")["run_id"]))


def test_a_run_is_forked_on_kubeflow_as_locally(project: dict[str, str]) -> None:
    parent = on_kubeflow(project, "k-parent")
    at = (f"fork.run={parent['run_id']}", "fork.at=count@4")
    same = on_kubeflow(project, "k-same", *at)
    assert digests(same) == digests(parent)
    assert caches(same) == {"base": "hit", "count": "miss", "score": "hit"}
    other = on_kubeflow(project, "k-other", *at, "stages.count.with.factor=3")
    assert next(stage for stage in other["stages"] if stage["name"] == "count")["metrics"] == {"number": 10.0}
    changes = ("--at", "count@4", "--set", "stages.count.with.factor=3", "--recipe", str(COUNTING))
    local = json.loads(command(project, "fork", parent["run_id"], *changes, "--json"))
    assert digests(local) == digests(other)
    assert set(caches(local).values()) == {"hit"}
