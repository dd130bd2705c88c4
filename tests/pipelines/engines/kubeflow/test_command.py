"""`posttrain run --engine kubeflow` as a user runs it: a bucket, and a Kubeflow that carries the containers out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pipelines.engines.kubeflow.examples import ENVIRONMENT
from tests.support.kubeflow_api import kubeflow_api

ROOT = Path(__file__).parents[4]
RECIPES = ROOT / "tests" / "pipelines" / "engines" / "airflow" / "recipes"
PLUGIN = ROOT / "tests" / "pipelines" / "plugin"


def posttrain(*arguments: str, environment: dict[str, str]) -> subprocess.Popen[str]:
    """Start the command as a user does."""
    return subprocess.Popen(
        [sys.executable, "-m", "pipelines.cli", *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
def test_the_command_from_start_to_end(s3_uri: str, tmp_path: Path) -> None:
    path = os.pathsep.join([str(PLUGIN), str(ROOT)])
    environment = {**ENVIRONMENT, "PYTHONPATH": path, "POSTTRAIN_STORE": s3_uri, "POSTTRAIN_LINEAGE": "later"}
    recipe = str(RECIPES / "numbers.yaml")
    with kubeflow_api(tmp_path / "pods", carry_out=True, environment=environment) as api:
        environment["POSTTRAIN_KUBEFLOW_URL"] = api.url

        def call(*arguments: str, code: int = 0) -> tuple[str, str]:
            process = posttrain(*arguments, environment=environment)
            out, err = process.communicate(timeout=500)
            assert process.returncode == code, f"{arguments}: {process.returncode}\n{out}\n{err}"
            assert "Traceback" not in out + err
            return out, err

        failed, _ = call("run", recipe, "--engine", "kubeflow", "--set", "fail=true", "--json", code=1)
        (stage,) = [stage for stage in json.loads(failed)["stages"] if stage["name"] == "train"]
        assert (json.loads(failed)["status"], stage["status"]) == ("failed", "failed")
        done, _ = call("run", recipe, "--engine", "kubeflow", "--set", "factor=4", "--json")
        shown = json.loads(done)
        assert shown["status"] == "succeeded" and len(shown["stages"]) == 4
        (first, second) = api.runs.values()
        assert second.body["runtime_config"]["parameters"] == {"factor": 4, "posttrain_store": s3_uri}
        call("run", recipe, "--engine", "kubeflow", "--set", "fail=true", code=1)
        assert first.verbs == ["retry"] and len(api.runs) == 2, "the same command goes on with the same run"
        _, said = call("run", recipe, "--engine", "kubeflow", "--set", "factr=4", code=2)
        assert "unknown parameter 'factr'" in said
