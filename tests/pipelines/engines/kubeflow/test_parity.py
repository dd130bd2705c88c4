"""The pipeline of a recipe and the local engine's plan: the same stages, edges, retries, timeouts, pools and jobs."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from components.contract.job import Job
from components.runtime.ledger.records import load_job
from components.runtime.store import open_store
from pipelines.engines.kubeflow.begin import begin
from pipelines.engines.kubeflow.compiler.bundle import Bundle
from pipelines.engines.kubeflow.compiler.drawing import runs_remotely
from pipelines.engines.kubeflow.names import PLAN, STORE, approval_task, task_name
from pipelines.engines.shared.pod import STARTUP_SECONDS
from pipelines.plan.plan import build_plan
from pipelines.recipe.pools import Pool
from pipelines.recipe.recipe import load_recipe
from tests.pipelines import grammar
from tests.pipelines.engines.kubeflow.examples import FOLDER, POOLS, compiled, executor_of, parsed, tasks_of
from tests.pipelines.engines.shape import StageShape, job_shape, plan_shape

RECIPES = [*grammar.RECIPES, *sorted((FOLDER / "recipes").glob("*.yaml"))]
OWN = {"backoffDuration": "5s", "backoffFactor": 2.0, "backoffMaxDuration": f"{366 * 86400}s", "maxRetryCount": 3}
"""Of every task, for a pod of it that is lost."""


@pytest.fixture(autouse=True)
def where(toy_catalog: None, cluster: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The toy components and pools of every kind."""
    (tmp_path / "pools.yaml").write_text(POOLS)
    monkeypatch.setenv("POSTTRAIN_POOLS", str(tmp_path / "pools.yaml"))


def begun(pipeline: dict[str, Any], folder: Path) -> dict[str, Job]:
    """Begin a run with the pipeline's defaults, as its first task does, and return the jobs that stages will find."""
    arguments = pipeline["deploymentSpec"]["executors"][f"exec-{PLAN}"]["container"]["args"]
    parameters = pipeline["root"]["inputDefinitions"]["parameters"]
    values = {name: item["defaultValue"] for name, item in parameters.items() if "defaultValue" in item}
    values[STORE] = str(folder / "store")
    (folder / "bundle").mkdir()
    run_id = begin(Bundle.parse(arguments[1]), json.loads(json.dumps(values)), "kubeflow-run", folder / "bundle")
    store = open_store(values[STORE])
    names = [item["inputs"]["parameters"]["stage"]["runtimeValue"]["constant"] for item in stage_tasks(pipeline)]
    jobs = {name: load_job(store, run_id, name) for name in names}
    return {name: job for name, job in jobs.items() if job is not None}


def stage_tasks(pipeline: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the tasks that run stages, without questions and the first one."""
    tasks = tasks_of(pipeline)
    questions = {name for name in tasks if module_of(pipeline, name).endswith(".approval")}
    return [task for name, task in tasks.items() if name != PLAN and name not in questions]


def module_of(pipeline: dict[str, Any], task: str) -> str:
    """Return the module that a task's container runs."""
    return pipeline["deploymentSpec"]["executors"][executor_of(pipeline, task)]["container"]["command"][2]


def pipeline_shape(text: str, jobs: dict[str, Job]) -> dict[str, StageShape]:
    """Return the shape of every stage as Kubeflow orders it; `jobs` are what the launcher gets."""
    pipeline, platform = parsed(text)
    tasks = tasks_of(pipeline)
    names = {task_name(name): name for name in jobs}
    found = {}
    for key, name in names.items():
        question = approval_task(name)
        before = set(tasks[key]["dependentTasks"]) | set(tasks.get(question, {}).get("dependentTasks", []))
        labels = platform[executor_of(pipeline, key)]["podMetadata"]["labels"]
        assert tasks[key]["retryPolicy"] == OWN  # a stage is tried again by its task, not by Kubeflow
        assert (question in tasks) == (jobs[name].approve is not None)
        job = jobs[name]
        found[name] = StageShape(
            after=frozenset(names[other] for other in before - {PLAN, question}),
            retries=job.retry.retries,
            pause_seconds=job.retry.backoff_seconds,
            longest_pause_seconds=job.retry.max_backoff_seconds,
            timeout_seconds=timeout_of(pipeline, platform, key, job),
            pool=labels["posttrain.dev/pool"],
            approve=job.approve,
            job=job_shape(job),
        )
    return found


def timeout_of(pipeline: dict[str, Any], platform: dict[str, Any], task: str, job: Job) -> float | None:
    """Return a stage's time limit; the pod in which it is tried has that of all tries, and a driver's pod has none."""
    deadline = platform[executor_of(pipeline, task)].get("activeDeadlineSeconds")
    if module_of(pipeline, task).endswith(".remote") or job.timeout_seconds is None:
        assert deadline is None
    else:
        tries = job.retry.retries + 1
        pauses = sum(min(job.retry.backoff_seconds * 2**n, job.retry.max_backoff_seconds) for n in range(tries - 1))
        assert int(deadline) == math.ceil(tries * job.timeout_seconds + pauses) + STARTUP_SECONDS
    return job.timeout_seconds


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_all_is_as_locally(path: Path, tmp_path: Path) -> None:
    text = compiled(path)
    plan = build_plan(load_recipe(str(path)), str(tmp_path / "store"), "parity")
    left_out = {task_name(left.name) for left in plan.recipe.left_out}
    pipeline, _ = parsed(text)
    jobs = begun(pipeline, tmp_path)
    assert {name for name in tasks_of(pipeline) if name in left_out} == left_out  # drawn, and its task finds no job
    assert pipeline_shape(text, jobs) == plan_shape(plan)


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_every_executor_gets_what_its_pool_has(path: Path) -> None:
    recipe = load_recipe(str(path), whole=True)
    pipeline, platform = parsed(compiled(path))
    for stage in recipe.stages:
        pool: Pool = recipe.pools[stage.pool]
        label = executor_of(pipeline, task_name(stage.name))
        executor = pipeline["deploymentSpec"]["executors"][label]["container"]
        asked, placed = executor["resources"], platform[label]
        if runs_remotely(stage, recipe):  # its nodes are the business of the work that this task drives
            assert "accelerator" not in asked and "nodeSelector" not in placed
            continue
        assert float(asked["cpuLimit"]) == float(asked["cpuRequest"]) == pool.cpus
        assert asked["resourceMemoryLimit"] == asked["resourceMemoryRequest"]
        assert int(asked.get("accelerator", {}).get("resourceCount", 0)) == pool.gpus
        assert placed.get("nodeSelector", {}).get("labels", {}) == pool.node_selector
        assert len(placed.get("tolerations", [])) == len(pool.tolerations)
        mounts = {mount["mountPath"] for mount in placed["emptyDirMounts"]}
        assert mounts == {"/tmp", *(["/dev/shm"] if pool.shared_memory_gib else [])}
