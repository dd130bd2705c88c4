"""A stage of an outside package in a DAG, run task by task, with no line about it in this tree."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from pipelines.engines.shared.launcher import stage_python

ROOT = Path(__file__).parents[4]


def test_it_is_a_task_of_the_dag_and_in_the_report_of_its_run(tmp_path: Path) -> None:
    recipes = tmp_path / "recipes"
    recipes.mkdir()
    text = (ROOT / "tests" / "pipelines" / "recipes" / "toy-exam.yaml").read_text()
    (recipes / "toy-exam.yaml").write_text(text)
    environment = {
        **os.environ,
        "AIRFLOW_HOME": str(tmp_path / "home"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "POSTTRAIN_STORE": str(tmp_path / "store"),
        "POSTTRAIN_RECIPES": str(recipes),
        "POSTTRAIN_LINEAGE": "later",
        "PYTHONPATH": os.pathsep.join([str(ROOT / "tests" / "pipelines" / "plugin"), str(ROOT)]),
        "PYTHONWARNINGS": "ignore",
    }
    asked = {"dags": str(ROOT / "dags"), "runs": [["toy-exam", {"factor": 20}]]}
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.dag_runs"],
        cwd=ROOT,
        env=environment,
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    run = json.loads(done.stdout)
    assert run["state"] == "success", run["tasks"]
    assert {run["tasks"][name] for name in ("base", "train", "exam-base", "exam", "run.report")} == {"success"}
    report = [stage_python(), "-m", "pipelines.cli", "report", "latest"]
    page = subprocess.run(report, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout.strip()
    assert "Mark in the final exam of each model" in Path(page).read_text()
