"""Recipes as DAGs. Parsing a recipe builds the whole graph; a run's own parameters are read when it begins."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, BaseOperator, Label, TaskGroup, TriggerRule, get_parsing_context
from airflow.sdk.definitions.param import ParamsDict

from components.contract.errors import InputError
from pipelines.engines.airflow.assets import stage_outlets
from pipelines.engines.airflow.catalog import shown_recipes
from pipelines.engines.airflow.docs import display_name, recipe_docs, recipe_tags, stage_docs
from pipelines.engines.airflow.form import form_of
from pipelines.engines.airflow.names import (
    PLAN,
    REPORT,
    STORE,
    approval_task,
    dag_id,
    pool_name,
    run_id_of,
)
from pipelines.engines.airflow.pools import slots_of_a_job
from pipelines.engines.airflow.tasks.approval import ApprovalTask
from pipelines.engines.airflow.tasks.callbacks import stage_failed
from pipelines.engines.airflow.tasks.run_tasks import PlanTask, ReportTask
from pipelines.engines.airflow.tasks.stage_task import StageTask
from pipelines.engines.airflow.timing import dag_schedule
from pipelines.engines.shared.attempt import STARTUP_SECONDS
from pipelines.engines.shared.pod import PodSettings
from pipelines.engines.shared.stage_job import tries_of
from pipelines.language.find import recipe_files
from pipelines.plan.plan import stage_job
from pipelines.recipe.pools import load_pools
from pipelines.recipe.recipe import Recipe, load_recipe
from pipelines.recipe.stage import Stage

RUN_MACRO = "posttrain_run_id"
"""Template of our run id from Airflow's run, for a pod's manifest, which is built before a run exists."""
_OWN_RETRIES: dict[str, Any] = {"retries": 3, "retry_delay": timedelta(seconds=5)}
"""Of the first and the last task and of questions, for what befalls Airflow itself; a refusal is never tried again.

Airflow fails a question that is answered within the second in which it is asked: it takes the end of the asking process
for that of the task. A retry asks again."""


class BrokenRecipes(DAG):
    """Represents unreadable recipes: Airflow shows their problems as one import error."""

    def validate(self) -> None:
        """Refuse to be a DAG; the others of the file are not affected."""
        raise InputError(self.description or "")


def airflow_dags() -> dict[str, DAG]:
    """Return a DAG for each readable recipe that Airflow shows; a task's process gets only its own."""
    wanted = get_parsing_context().dag_id
    own = {name: path for name, path in recipe_files().items() if dag_id(name) == wanted} if wanted else {}
    dags: dict[str, DAG] = {}
    problems: list[str] = []
    try:
        pools, files = load_pools(), own or shown_recipes()
    except InputError as error:
        pools, files, problems = {}, {}, [str(error)]
    for name, path in files.items():
        try:
            recipe = load_recipe(str(path), pools=pools, whole=True)
            dags[name] = recipe_dag(recipe, dag_id(name), to_run=wanted is not None)
        except InputError as error:
            problems.append(str(error))
    if problems:
        dags["broken recipes"] = BrokenRecipes("broken-recipes", description="\n".join(problems))
    return dags


def recipe_dag(recipe: Recipe, name: str, *, to_run: bool = True) -> DAG:
    """Return the DAG of a whole recipe; unless it is `to_run`, without the operators that take seconds to import."""
    with DAG(
        name,
        dag_display_name=display_name(name, recipe),
        description=recipe.summary or None,
        doc_md=recipe_docs(recipe),
        schedule=dag_schedule(recipe.schedule),
        catchup=False,
        **({"max_active_runs": 1} if recipe.schedule else {}),
        user_defined_macros={RUN_MACRO: run_id_of},
        tags=recipe_tags(recipe),
    ) as dag:
        plan = PlanTask(task_id=PLAN, task_display_name="plan", path=str(recipe.path.absolute()), **_OWN_RETRIES)
        report = ReportTask(task_id=REPORT, task_display_name="report", recipe=recipe.name, **_OWN_RETRIES)
        report.as_teardown(setups=plan)
        groups: dict[str, TaskGroup] = {}
        tasks = {stage.name: _stage(stage, recipe, groups, to_run=to_run) for stage in recipe.stages}
        awaited = {name for stage in recipe.stages for name in stage.after}
        for stage in recipe.stages:
            first = tasks[stage.name][0]
            if not stage.after:
                plan >> first
            for name in stage.after:
                _connect(tasks[name][-1], first, stage, name)
            if stage.name not in awaited:
                tasks[stage.name][-1] >> report
    # set last: every task copies its DAG's parameters, and Airflow checks each copy when parsing
    dag.params = ParamsDict(form_of(recipe))
    return dag


def _connect(before: BaseOperator, after: BaseOperator, stage: Stage, name: str) -> None:
    if stage.when and any(word.startswith(f"{name}.") for word in stage.when.replace("(", " ").split()):
        before >> Label(f"if {stage.when}") >> after
    else:
        before >> after


def _stage(stage: Stage, recipe: Recipe, groups: dict[str, TaskGroup], *, to_run: bool) -> list[BaseOperator]:
    """Return the tasks of a stage in order: the approval, if there is one, and the work."""
    pool = recipe.pools[stage.pool]
    # a skipped stage blocks no other; a stage right after the set-up task needs its success
    rule = TriggerRule.NONE_FAILED if stage.after else TriggerRule.ALL_SUCCESS
    with ExitStack() as stack:
        for group in _groups(stage, groups):
            stack.enter_context(group)
        work = _work(
            stage,
            recipe,
            to_run=to_run,
            task_id=stage.name,
            task_display_name=stage.title,
            doc_md=stage_docs(stage),
            trigger_rule=rule if stage.approve is None else TriggerRule.NONE_FAILED,
            outlets=stage_outlets(stage, recipe.name),
            pool=pool_name(stage.pool),
            pool_slots=slots_of_a_job(pool),
            retries=tries_of(stage.retry.retries, stage.on_failure) - 1,
            retry_delay=timedelta(seconds=stage.retry.backoff_seconds),
            retry_exponential_backoff=2.0,
            max_retry_delay=timedelta(seconds=stage.retry.max_backoff_seconds),
            on_failure_callback=stage_failed,
        )
        work.custom_operator_name = stage.component.name  # shown below a stage's name in the graph
        if stage.approve is None:
            return [work]
        question = ApprovalTask(
            task_id=approval_task(stage.name),
            task_display_name=f"approve {stage.title}",
            recipe=recipe.name,
            stage=stage.name,
            approval=stage.approve,
            trigger_rule=rule,
            **_OWN_RETRIES,
        )
        question >> work
        return [question, work]


def _work(stage: Stage, recipe: Recipe, *, to_run: bool, **operator: Any) -> BaseOperator:
    """Return the task that runs a stage as its pool's `runs_on` says: a process of the worker, or a pod."""
    pool = recipe.pools[stage.pool]
    if pool.runs_on == "worker":
        # the process enforces the limit itself once it is ready; this is for one that cannot
        limit = _seconds(stage.timeout_seconds and stage.timeout_seconds + STARTUP_SECONDS)
        return StageTask(recipe=recipe.name, stage=stage.name, execution_timeout=limit, **operator)
    run_id = f"{{{{ {RUN_MACRO}({recipe.name!r}, dag_run) }}}}"
    job = stage_job(stage, recipe, os.environ.get(STORE, ""), run_id)
    return _pod_operator(to_run=to_run)(job=job, node_pool=pool, settings=PodSettings.read(), **operator)


def _pod_operator(*, to_run: bool) -> Any:
    if to_run:
        from pipelines.engines.airflow.tasks.pod_task import StagePod

        return StagePod
    from pipelines.engines.airflow.tasks import pod_drawn

    return pod_drawn.StagePod


def _groups(stage: Stage, groups: dict[str, TaskGroup]) -> list[TaskGroup]:
    """Return the groups that contain a stage, outermost first: its repeats with their rounds, then its own cells."""
    if stage.group is None:
        return []
    *repeats, own = stage.group.split(".")
    labels: Mapping[str, Any] = dict(stage.labels)
    found: list[TaskGroup] = []
    path = ""
    for depth, repeat in enumerate(repeats):
        path = f"{path}{repeat}"
        found.append(_group(path, repeat, groups))
        number = list(labels.values())[depth]
        path = f"{path}-{number}"
        found.append(_group(path, f"round {number}", groups))
        path += "-"
    if len(labels) > len(repeats):
        found.append(_group(f"{path}{own}", own, groups))
    return found


def _group(group_id: str, label: str, groups: dict[str, TaskGroup]) -> TaskGroup:
    if group_id not in groups:
        groups[group_id] = TaskGroup(group_id, group_display_name=label, prefix_group_id=False)
    return groups[group_id]


def _seconds(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=seconds)
