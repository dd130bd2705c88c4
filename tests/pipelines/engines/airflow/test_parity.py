"""The DAG of a recipe and the local engine's plan: the same stages, edges, retries, timeouts, pools and jobs."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
from airflow.sdk import DAG

from components.contract.job import Approval, Job
from components.runtime.ledger.records import load_job
from components.runtime.store import open_store
from pipelines.engines.airflow.dag import recipe_dag
from pipelines.engines.airflow.names import PLAN, POOL_PREFIX, REPORT, approval_task, run_id_of
from pipelines.engines.airflow.tasks.approval import ApprovalTask
from pipelines.engines.airflow.tasks.pod_task import StagePod
from pipelines.engines.airflow.tasks.stage_task import StageTask
from pipelines.engines.shared.pod import STARTUP_SECONDS, PodSettings, pod_spec
from pipelines.plan.plan import build_plan, stage_job
from pipelines.recipe.pools import load_pools
from pipelines.recipe.recipe import load_recipe
from tests.pipelines.engines.shape import StageShape, job_shape, plan_shape
from tests.pipelines.grammar import RECIPES, unused_words

POOLS = """\
cpu: {cpus: 1, memory_gib: 4}
h100x8: {cpus: 96, memory_gib: 1600, gpus: 8, gpu_type: h100}
"""
DAG_RUN = SimpleNamespace(
    dag_id="parity",
    run_id="manual__1",
    run_type="manual",
    run_after=datetime(2026, 11, 21, tzinfo=UTC),
    conf={},
    start_date=None,
)


@pytest.fixture(autouse=True)
def where(toy_catalog: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The toy components, two pools, and a store of the test's own."""
    (tmp_path / "pools.yaml").write_text(POOLS)
    monkeypatch.setenv("POSTTRAIN_POOLS", str(tmp_path / "pools.yaml"))
    monkeypatch.setenv("POSTTRAIN_STORE", str(tmp_path / "store"))


def dag_shape(dag: DAG, jobs: dict[str, Job]) -> dict[str, StageShape]:
    """Return the shape of every stage as Airflow orders it; `jobs` are what the launcher gets."""
    found = {}
    for task in dag.tasks:
        if not isinstance(task, StageTask | StagePod):
            continue
        question = dag.task_dict.get(approval_task(task.task_id))
        first = task if question is None else question
        assert question is None or task.upstream_task_ids == {question.task_id}
        job = jobs[task.task_id]
        found[task.task_id] = StageShape(
            after=frozenset(first.upstream_task_ids - {PLAN}),
            **retries_of(task, job),
            timeout_seconds=timeout_of(task, job),
            pool=task.pool.removeprefix(POOL_PREFIX),
            approve=approval_of(question),
            job=job_shape(job),
        )
    return found


def retries_of(task: StageTask | StagePod, job: Job) -> dict[str, float]:
    """Return how often a stage is tried again: by Airflow, or by its driver, whose tries Airflow does not multiply."""
    if isinstance(task, StagePod):
        assert (task.retries, task.retry_exponential_backoff) == (3, 0), "for what befalls Airflow itself"
        seconds = (job.retry.backoff_seconds, job.retry.max_backoff_seconds)
        return {"retries": job.retry.retries, "pause_seconds": seconds[0], "longest_pause_seconds": seconds[1]}
    assert task.retry_exponential_backoff == 2.0
    return {
        "retries": task.retries - (job.on_failure == "skip"),
        "pause_seconds": task.retry_delay.total_seconds(),
        "longest_pause_seconds": task.max_retry_delay.total_seconds(),
    }


def timeout_of(task: StageTask | StagePod, job: Job) -> float | None:
    """Return a stage's time limit: the task's or the pod's without what it has for starting."""
    if isinstance(task, StageTask):
        return task.execution_timeout and task.execution_timeout.total_seconds() - STARTUP_SECONDS
    deadline = pod_spec(job, load_pools()[job.resources.pool], PodSettings()).get("activeDeadlineSeconds")
    return deadline and deadline - STARTUP_SECONDS


def approval_of(question: ApprovalTask | None) -> Approval | None:
    """Return what a question asks, how long, and what happens when nobody answers."""
    if question is None:
        return None
    limit = question.response_timeout and question.response_timeout.total_seconds()
    on_timeout = "approve" if question.defaults == [question.APPROVE] else "reject"
    return Approval(message=question.subject, timeout_seconds=limit, on_timeout=on_timeout)


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_on_the_worker_all_is_as_locally(path: Path, tmp_path: Path) -> None:
    plan = build_plan(load_recipe(str(path)), str(tmp_path / "store"), "parity")
    dag = recipe_dag(load_recipe(str(path), whole=True), name=path.stem)
    dag.task_dict[PLAN].execute({"dag_run": DAG_RUN})
    store = open_store(str(tmp_path / "store"))
    stored = {task.task_id: load_job(store, run_id_of(plan.recipe.name, DAG_RUN), task.task_id) for task in dag.tasks}
    left_out = {left.name for left in plan.recipe.left_out}
    assert {name for name in left_out if stored[name]} == set()  # its task finds no job, and is skipped
    jobs = {name: job for name, job in stored.items() if job}
    drawn = [task for task in dag.tasks if task.task_id in jobs]
    assert len(drawn) == len(plan.jobs)
    for name in left_out:
        dag.task_dict.pop(name)
    assert dag_shape(dag, jobs) == plan_shape(plan)


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_in_pods_all_is_as_locally(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POSTTRAIN_RUNS_ON", "pod")
    recipe = load_recipe(str(path), whole=True)
    dag = recipe_dag(recipe, name=path.stem)
    assert not [task for task in dag.tasks if isinstance(task, StageTask)]
    jobs = {stage.name: stage_job(stage, recipe, "s3://bucket/store", "parity") for stage in recipe.stages}
    wanted = plan_shape(build_plan(recipe, "s3://bucket/store", "parity"))
    assert all(shape.timeout_seconds in (None, math.ceil(shape.timeout_seconds or 0)) for shape in wanted.values())
    assert dag_shape(dag, jobs) == wanted


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_the_first_task_begins_and_the_last_one_ends_every_run(path: Path) -> None:
    dag = recipe_dag(load_recipe(str(path), whole=True), name=path.stem)
    first, last = dag.task_dict[PLAN], dag.task_dict[REPORT]
    assert [task.task_id for task in dag.roots] == [PLAN]
    assert [task.task_id for task in dag.leaves] == [REPORT]
    assert first.is_setup and last.is_teardown and not last.on_failure_fail_dagrun


def test_the_recipes_use_every_word_of_the_language() -> None:
    assert unused_words() == set()
