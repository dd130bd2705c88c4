"""Recipes as DAGs. Parsing a recipe builds the whole graph; a run's own parameters are read when it begins."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, BaseOperator, Label, Param, TaskGroup, TriggerRule, get_parsing_context
from airflow.sdk.definitions.param import ParamsDict

from components.contract.errors import InputError
from pipelines.engines.airflow.assets import stage_outlets
from pipelines.engines.airflow.graphs.drawing import Drawing, StageDrawing
from pipelines.engines.airflow.graphs.shown import drawing_of, read, shown_drawings
from pipelines.engines.airflow.names import PLAN, REPORT, RUN_MACRO, approval_task, dag_id, run_id_of
from pipelines.engines.airflow.tasks.approval import ApprovalTask
from pipelines.engines.airflow.tasks.callbacks import stage_failed
from pipelines.engines.airflow.tasks.pod_task import StagePod
from pipelines.engines.airflow.tasks.run_tasks import PlanTask, ReportTask
from pipelines.engines.airflow.tasks.stage_task import StageTask
from pipelines.engines.airflow.timing import dag_schedule
from pipelines.language.find import recipe_files
from pipelines.language.synced import consistently

if TYPE_CHECKING:
    from pipelines.recipe.recipe import Recipe

_OWN_RETRIES: dict[str, Any] = {"retries": 3, "retry_delay": timedelta(seconds=5)}
"""Of all tasks but processes of the worker, for what befalls Airflow itself; a refusal is never tried again.

Airflow fails a question that is answered within the second in which it is asked: it takes the end of the asking process
for that of the task. A retry asks again."""


class BrokenRecipes(DAG):
    """Represents unreadable recipes: Airflow shows their problems as one import error."""

    def validate(self) -> None:
        """Refuse to be a DAG; the others of the file are not affected."""
        raise InputError(self.description or "")


def airflow_dags() -> dict[str, DAG]:
    """Return a DAG for each readable recipe that Airflow shows; a task's process gets only its own.

    All are of one commit, where git-sync brings recipes.
    """
    return consistently(_read_dags)


def _read_dags() -> dict[str, DAG]:
    wanted = get_parsing_context().dag_id
    own = {name: path for name, path in recipe_files().items() if dag_id(name) == wanted} if wanted else {}
    dags: dict[str, DAG] = {}
    problems: list[str] = []
    try:
        if own:
            dags = {name: recipe_dag(read(path), dag_id(name)) for name, path in own.items()}
        else:
            dags = {name: _dag(drawing, dag_id(name)) for name, drawing in shown_drawings(problems).items()}
    except InputError as error:
        problems.append(str(error))
    if problems:
        dags["broken recipes"] = BrokenRecipes("broken-recipes", description="\n".join(problems))
    return dags


def recipe_dag(recipe: Recipe, name: str) -> DAG:
    """Return the DAG of a whole recipe."""
    return _dag(drawing_of(recipe, name), name)


def _dag(drawing: Drawing, name: str) -> DAG:
    with DAG(
        name,
        dag_display_name=drawing.title,
        description=drawing.summary or None,
        doc_md=drawing.docs,
        schedule=dag_schedule(drawing.times),
        catchup=False,
        **({"max_active_runs": 1} if drawing.times else {}),
        user_defined_macros={RUN_MACRO: run_id_of},
        tags=drawing.tags,
    ) as dag:
        plan = PlanTask(task_id=PLAN, task_display_name="plan", path=drawing.path, **_OWN_RETRIES)
        report = ReportTask(task_id=REPORT, task_display_name="report", recipe=drawing.recipe, **_OWN_RETRIES)
        report.as_teardown(setups=plan)
        groups: dict[str, TaskGroup] = {}
        tasks = {stage.name: _stage(stage, drawing, groups) for stage in drawing.stages}
        awaited = {name for stage in drawing.stages for name in stage.after}
        for stage in drawing.stages:
            first = tasks[stage.name][0]
            if not stage.after:
                plan >> first
            for before in stage.after:
                label = [Label(f"if {stage.condition}")] if before in stage.depends else []
                tasks[before][-1].set_downstream(first, *label)
            if stage.name not in awaited:
                tasks[stage.name][-1] >> report
    # set last: every task copies its DAG's parameters, and Airflow checks each copy when parsing
    dag.params = ParamsDict({key: Param(**field) for key, field in drawing.form.items()})
    return dag


def _stage(stage: StageDrawing, drawing: Drawing, groups: dict[str, TaskGroup]) -> list[BaseOperator]:
    """Return the tasks of a stage in order: the approval, if there is one, and the work."""
    # a skipped stage blocks no other; a stage right after the set-up task needs its success
    rule = TriggerRule.NONE_FAILED if stage.after else TriggerRule.ALL_SUCCESS
    with ExitStack() as stack:
        for group_id, label in stage.groups:
            stack.enter_context(_group(group_id, label, groups))
        work = _work(
            stage,
            drawing,
            task_id=stage.name,
            task_display_name=stage.title,
            doc_md=stage.docs,
            trigger_rule=rule if stage.question is None else TriggerRule.NONE_FAILED,
            outlets=stage_outlets(stage, drawing.recipe),
            pool=stage.pool,
            pool_slots=stage.slots,
            on_failure_callback=stage_failed,
        )
        work.custom_operator_name = stage.component  # shown below a stage's name in the graph
        if stage.question is None:
            return [work]
        question = ApprovalTask(
            task_id=approval_task(stage.name),
            task_display_name=f"approve {stage.title}",
            recipe=drawing.recipe,
            stage=stage.name,
            question=stage.question,
            trigger_rule=rule,
            **_OWN_RETRIES,
        )
        question >> work
        return [question, work]


def _work(stage: StageDrawing, drawing: Drawing, **operator: Any) -> BaseOperator:
    """Return the task that runs a stage: as a process of the worker, or on the cluster."""
    if stage.pod:  # its driver tries it again by the rules of all engines; Airflow's retries are for the task itself
        return StagePod(recipe=drawing.recipe, stage=stage.name, **_OWN_RETRIES, **operator)
    # the process enforces the limit itself once it is ready; this is for one that cannot
    limit = None if stage.limit_seconds is None else timedelta(seconds=stage.limit_seconds)
    return StageTask(
        recipe=drawing.recipe,
        stage=stage.name,
        execution_timeout=limit,
        retries=stage.retries,
        retry_delay=timedelta(seconds=stage.backoff_seconds),
        retry_exponential_backoff=2.0,
        max_retry_delay=timedelta(seconds=stage.max_backoff_seconds),
        **operator,
    )


def _group(group_id: str, label: str, groups: dict[str, TaskGroup]) -> TaskGroup:
    if group_id not in groups:
        groups[group_id] = TaskGroup(group_id, group_display_name=label, prefix_group_id=False)
    return groups[group_id]
