"""A stage of an outside package in a compiled pipeline, with no line about it in this tree."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.pipelines.engines.kubeflow.examples import ENVIRONMENT, parsed, tasks_of

ROOT = Path(__file__).parents[4]
PLUGIN = ROOT / "tests" / "pipelines" / "plugin"


def test_it_is_a_task_with_its_parameters_and_what_it_waits_for(tmp_path: Path) -> None:
    target = tmp_path / "exam.yaml"
    done = subprocess.run(
        [sys.executable, "-m", "pipelines.cli", "compile", "tests/pipelines/recipes/toy-exam.yaml", "-o", str(target)],
        cwd=ROOT,
        env={**os.environ, **ENVIRONMENT, "PYTHONPATH": str(PLUGIN)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    pipeline, _ = parsed(target.read_text())
    tasks = tasks_of(pipeline)
    assert {"exam", "exam-base"} <= set(tasks)
    assert "train" in tasks["exam"]["dependentTasks"] and "base" in tasks["exam-base"]["dependentTasks"]
    assert pipeline["root"]["inputDefinitions"]["parameters"]["examiner"]["defaultValue"] == "Ms Toy"
    assert "toy-exam" in json.dumps(pipeline["deploymentSpec"])
