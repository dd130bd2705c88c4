"""What Airflow's DAG processor sees: every recipe that can be read, one error for the others, and nothing heavy."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from pipelines.recipe.recipe import load_recipe

ROOT = Path(__file__).parents[4]
PROBE = """
import json, sys, time
import airflow.sdk
from airflow.dag_processing.dagbag import DagBag
from airflow.serialization.serialized_objects import DagSerialization
from airflow.providers.standard.operators.hitl import ApprovalOperator
began = time.process_time()
bag = DagBag(sys.argv[1])
sizes = {name: len(json.dumps(DagSerialization.to_dict(dag))) for name, dag in bag.dags.items()}
took = time.process_time() - began
outlets = [outlet for dag in bag.dags.values() for task in dag.tasks for outlet in task.outlets]
made = {outlet.uri for outlet in outlets if hasattr(outlet, "uri")}
schedules = [dag.schedule for dag in bag.dags.values() if dag.schedule is not None]
awaited = {asset.uri for schedule in schedules for asset in schedule.objects}
tags = {name: sorted(dag.tags) for name, dag in bag.dags.items()}
libraries = ("torch", "kfp", "mlflow", "numpy", "kubernetes", "kubernetes_asyncio")
heavy = [name for name in libraries if name in sys.modules]
found = {"dags": sizes, "errors": bag.import_errors, "heavy": heavy, "seconds": took}
pods = {name: [type(task).__module__ for task in dag.tasks] for name, dag in bag.dags.items()}
found["pods"] = {name: sorted({one for one in modules if ".pod_" in one}) for name, modules in pods.items()}
found |= {"made": sorted(made), "awaited": sorted(awaited), "tags": tags}
print(json.dumps(found), file=sys.__stdout__)
"""
STAGES = """
  data:
    uses: curate
    with: {kind: prompts, sources: [{domain: sums, count: 8, source: {name: reasoning_gym, task: chain_sum}}]}
  measure: {uses: evaluate, in: {model: hf:organisation/model, dataset: data.dataset}}
"""


def parse(recipes: Path, **environment: str) -> dict[str, Any]:
    """Parse the DAG file in a process of its own, and serialise what it holds, as the DAG processor does."""
    process = subprocess.run(
        [sys.executable, "-c", PROBE, str(ROOT / "dags")],
        cwd=ROOT,
        env={**os.environ, "POSTTRAIN_RECIPES": str(recipes), "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert process.returncode == 0, process.stderr[-3000:]
    return json.loads(process.stdout.splitlines()[-1])


def write(folder: Path, name: str, text: str) -> None:
    (folder / f"{name}.yaml").write_text(f"name: {name}\n{textwrap.dedent(text)}")


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What an Airflow with the recipes as shipped holds."""
    return parse(tmp_path_factory.mktemp("none"))


def test_the_shipped_recipes_without_anything_heavy(shipped: dict[str, Any]) -> None:
    expected = {"quickstart", "quickstart-seeds", "champion", "expert-iteration", "star", "rest", "dpo"}
    assert expected <= shipped["dags"].keys()
    assert shipped["errors"] == {}
    assert shipped["heavy"] == [], "gsm8k runs as pods, which need no library of Kubernetes"


def test_reproductions_of_methods_are_dags_where_they_are_asked_for(shipped: dict[str, Any], tmp_path: Path) -> None:
    assert not [name for name in shipped["dags"] if name.startswith("methods.")]
    everything = parse(tmp_path, POSTTRAIN_AIRFLOW_METHODS="1")
    methods = everything["dags"].keys() - shipped["dags"].keys()
    assert len(methods) == len(list((ROOT / "pipelines" / "recipes" / "methods").glob("*.yaml")))
    assert all("kind:method" in everything["tags"][name] for name in methods)
    assert not [name for name in shipped["dags"] if "kind:method" in everything["tags"][name]]
    [(_, error)] = parse(tmp_path, POSTTRAIN_AIRFLOW_METHODS="perhaps")["errors"].items()
    assert "POSTTRAIN_AIRFLOW_METHODS='perhaps': expected 1 or 0" in error


def test_a_dag_says_by_its_tags_what_it_trains_and_where(shipped: dict[str, Any]) -> None:
    trains = ["trains:pretrain", "trains:replay", "trains:rl", "trains:sft"]
    assert shipped["tags"]["quickstart"] == ["kind:recipe", "pool:cpu", "posttrain", *trains]


def test_only_registered_models_are_assets_before_anything_ran(shipped: dict[str, Any]) -> None:
    registered = {
        f"posttrain://models/{stage.register_as}@{alias}"
        for name in shipped["dags"]
        for stage in load_recipe(name, whole=True).stages
        for alias in (stage.register_aliases if stage.register_as else ())
    }
    assert set(shipped["made"]) == registered
    assert "posttrain://models/quickstart@candidate" in shipped["awaited"]
    assert set(shipped["awaited"]) <= registered


def test_a_broken_recipe_is_one_import_error_with_its_line_and_leaves_the_others_alone(tmp_path: Path) -> None:
    write(tmp_path, "well", f"stages:{STAGES}")
    write(tmp_path, "broken", "stages:\n  data: {uses: curat}\n")
    found = parse(tmp_path)
    assert {"well", "quickstart"} <= found["dags"].keys()
    assert "broken" not in found["dags"]
    [(_, error)] = found["errors"].items()
    assert f"{tmp_path}/broken.yaml:3:16: unknown component 'curat'; did you mean 'curate'?" in error
    assert "Traceback" not in error


def test_a_tasks_process_reads_the_recipe_that_it_belongs_to_and_no_other(tmp_path: Path) -> None:
    write(tmp_path, "well", f"stages:{STAGES}")
    write(tmp_path, "broken", "stages:\n  data: {uses: curat}\n")
    found = parse(tmp_path, _AIRFLOW_PARSING_CONTEXT_DAG_ID="well")
    assert set(found["dags"]) == {"well"}
    assert found["errors"] == {}
    working = parse(tmp_path, _AIRFLOW_PARSING_CONTEXT_DAG_ID="well", POSTTRAIN_RUNS_ON="pod")
    assert (working["heavy"], working["pods"]) == ([], {"well": ["pipelines.engines.airflow.tasks.pod_task"]})


def test_tasks_do_not_carry_the_parameters_of_their_dag(tmp_path: Path) -> None:
    params = "\n".join(f"  p{number}: {{default: {number}, min: 0, title: Number}}" for number in range(30))
    write(tmp_path, "few", f"stages:{STAGES}")
    write(tmp_path, "many", f"params:\n{params}\nstages:{STAGES}")
    sizes = parse(tmp_path)["dags"]
    assert sizes["many"] - sizes["few"] < 30 * 400, "each parameter is written once"


AGAIN = """
import sys, time
import airflow.sdk
from airflow.providers.standard.operators.hitl import ApprovalOperator
began = time.process_time()
import pipelines.engines.airflow.graphs.cache
pipelines.engines.airflow.graphs.cache.LOADED = 1e12
from pipelines.engines.airflow.dag import airflow_dags
count = len(airflow_dags())
print(count, time.process_time() - began)
"""


@pytest.mark.slow
def test_all_recipes_are_read_again_in_less_than_two_seconds(tmp_path: Path) -> None:
    own = {"POSTTRAIN_AIRFLOW_METHODS": "1", "POSTTRAIN_AIRFLOW_GRAPHS": str(tmp_path), "PYTHONPATH": str(ROOT)}
    times = []
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", AGAIN], env={**os.environ, **own}, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        count, seconds = done.stdout.splitlines()[-1].split()
        times.append(float(seconds))
    print(f"{count} recipes beyond Airflow's own import: {times[0]:.2f} s of CPU time, then {min(times[1:]):.2f} s")
    assert int(count) > 40 and min(times[1:]) < 2.0


@pytest.mark.slow
def test_two_hundred_recipes(tmp_path: Path) -> None:
    for number in range(200):
        write(tmp_path, f"recipe-{number}", f"params: {{steps: {number}}}\nstages:{STAGES}")
    write(tmp_path, "broken", "stages:\n  data: {uses: curat}\n")
    few = tmp_path / "few"
    few.mkdir()
    base = parse(few)
    found = parse(tmp_path)
    assert len(found["dags"]) == len(base["dags"]) + 200
    assert len(found["errors"]) == 1
    seconds = found["seconds"] - base["seconds"]
    print(f"200 recipes: {seconds:.2f} s of CPU time in the DAG processor")
    assert seconds < 2.0
