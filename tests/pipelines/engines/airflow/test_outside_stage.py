"""A stage of an outside package in a DAG, run task by task, with no line about it in this tree."""

from __future__ import annotations

import subprocess
from pathlib import Path

from pipelines.engines.shared.launcher import stage_python
from tests.support.dag_runs import ROOT, dag_environment, run_dags


def test_it_is_a_task_of_the_dag_and_in_the_report_of_its_run(tmp_path: Path) -> None:
    recipes = tmp_path / "recipes"
    recipes.mkdir()
    text = (ROOT / "tests" / "pipelines" / "recipes" / "toy-exam.yaml").read_text()
    (recipes / "toy-exam.yaml").write_text(text)
    environment = dag_environment(tmp_path, recipes)
    [run] = run_dags(environment, [("toy-exam", {"factor": 20})])
    assert run["state"] == "success", run["tasks"]
    assert {run["tasks"][name] for name in ("base", "train", "exam-base", "exam", "run.report")} == {"success"}
    report = [stage_python(), "-m", "pipelines.cli", "report", "latest"]
    page = subprocess.run(report, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout.strip()
    assert "Mark in the final exam of each model" in Path(page).read_text()
