"""Forks of a DAG's run: the same bytes as without the fork, and as the local engine's fork with another parameter."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pipelines.engines.shared.launcher import stage_python
from tests.support.command_line import caches, digests
from tests.support.dag_runs import ROOT, dag_environment, run_dags

RECIPES = Path(__file__).parent / "recipes"


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return dag_environment(tmp_path_factory.mktemp("airflow"), RECIPES)


def posttrain(environment: dict[str, str], *arguments: str) -> Any:
    command = [stage_python(), "-m", "pipelines.cli", *arguments, "--json"]
    process = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout)


def test_a_run_is_forked_on_airflow_as_locally(environment: dict[str, str]) -> None:
    (first,) = run_dags(environment, [("counting", {})])
    parent = first["values"]["run.plan:return_value"]["run_id"]
    at = [f"fork.run={parent}", "fork.at=count@4"]
    refused = ["fork.run=gone", "fork.at=count@4"]
    confs = [at, [*at, "stages.count.with.factor=3"], ["stages.base.with.factor=7", *at], refused]
    runs = run_dags(environment, [("counting", {"--set": conf}) for conf in confs])
    assert [run["state"] for run in runs] == ["success", "success", "failed", "failed"]
    shown = [posttrain(environment, "show", run["values"]["run.plan:return_value"]["run_id"]) for run in runs[:3]]
    same, other, changed = shown
    before = posttrain(environment, "show", parent)
    assert digests(same) == digests(before)
    assert caches(same) == {"base": "hit", "count": "miss", "score": "hit"}
    assert same["fork"] == {"run": parent, "stage": "count", "step": 4}
    counts = next(stage for stage in other["stages"] if stage["name"] == "count")
    assert counts["metrics"] == {"number": 10.0}, "four steps of 1, and two of 3"
    error = next(stage for stage in changed["stages"] if stage["name"] == "count")["error"]
    assert "its input model, made by base, is another one, so no step before the fork is the same" in error
    local = posttrain(environment, "fork", parent, "--at", "count@4", "--set", "stages.count.with.factor=3", "--new")
    assert digests(local) == digests(other)
    assert set(caches(local).values()) == {"hit"}, "a fork has one fingerprint on all engines"
