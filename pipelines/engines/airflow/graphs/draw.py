"""From a recipe to the plain data of its DAG. Imports no Airflow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipelines.engines.airflow.docs import display_name, recipe_docs, recipe_tags, stage_docs
from pipelines.engines.airflow.form import fields_of
from pipelines.engines.airflow.graphs.drawing import Drawing, Question, StageDrawing, Times
from pipelines.engines.airflow.names import TRACKED, pool_name
from pipelines.engines.airflow.pools import slots_of_a_job
from pipelines.engines.driver.manifests.work import is_driven
from pipelines.engines.shared.attempt import STARTUP_SECONDS
from pipelines.engines.shared.stage_job import tries_of
from pipelines.plan.plan import stage_job
from pipelines.recipe.recipe import Recipe
from pipelines.recipe.schedule.section import Schedule
from pipelines.recipe.stage import Stage


def draw(recipe: Recipe, name: str) -> Drawing:
    """Return the drawing of a whole recipe whose DAG has the id `name`."""
    return Drawing(
        recipe=recipe.name,
        path=str(recipe.path.absolute()),
        title=display_name(name, recipe),
        summary=recipe.summary,
        docs=recipe_docs(recipe),
        tags=recipe_tags(recipe),
        times=_times(recipe.schedule),
        form=fields_of(recipe),
        stages=[_stage(stage, recipe) for stage in recipe.stages],
    )


def _stage(stage: Stage, recipe: Recipe) -> StageDrawing:
    pool = recipe.pools[stage.pool]
    words = (stage.when or "").replace("(", " ").split()
    pod = is_driven(stage_job(stage, recipe, "", ""), pool)
    limit = stage.timeout_seconds and stage.timeout_seconds + STARTUP_SECONDS
    return StageDrawing(
        name=stage.name,
        title=stage.title,
        docs=stage_docs(stage),
        component=stage.component.name,
        after=list(stage.after),
        condition=stage.when,
        depends=[name for name in stage.after if any(word.startswith(f"{name}.") for word in words)],
        groups=_groups(stage),
        pool=pool_name(stage.pool),
        slots=1 if pod else slots_of_a_job(pool),
        pod=pod,
        retries=tries_of(stage.retry.retries, stage.on_failure) - 1,
        backoff_seconds=stage.retry.backoff_seconds,
        max_backoff_seconds=stage.retry.max_backoff_seconds,
        limit_seconds=limit,
        tracked=any(info.type in TRACKED for info in stage.component.outputs.values()),
        registered=[(stage.register_as, alias) for alias in stage.register_aliases if stage.register_as],
        question=_question(stage),
    )


def _question(stage: Stage) -> Question | None:
    asked = stage.approve
    return None if asked is None else Question(asked.message, asked.timeout_seconds, asked.on_timeout)


def _times(schedule: Schedule | None) -> Times | None:
    if schedule is None:
        return None
    cron = (schedule.cron.text, schedule.cron.timezone) if schedule.cron else None
    return Times(cron, [(item.kind, item.text) for item in schedule.on], schedule.poll_seconds)


def _groups(stage: Stage) -> list[tuple[str, str]]:
    """Return the groups that contain a stage, outermost first: its repeats with their rounds, then its own cells."""
    *repeats, own = (stage.group or stage.name).split(".")
    labels: Mapping[str, Any] = dict(stage.labels)
    found: list[tuple[str, str]] = []
    path = ""
    for depth, repeat in enumerate(repeats):
        path = f"{path}{repeat}"
        found.append((path, repeat))
        number = list(labels.values())[depth]
        path = f"{path}-{number}"
        found.append((path, f"round {number}"))
        path += "-"
    if stage.shard_of:
        found.append((f"{stage.shard_of}-shards", f"shards of {stage.shard_of}"))
    elif len(labels) > len(repeats):
        found.append((f"{path}{own}", own))
    return found
