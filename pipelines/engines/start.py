"""Plans and starts runs: from a recipe to an engine that has its plan. Used by every command, and by the notebook."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from components.runtime.ledger.code_trees import publish_code
from components.runtime.system.code import code_version
from pipelines.engines.engine import RunOptions
from pipelines.engines.refusals import refuse
from pipelines.engines.registry import DEFAULT, find_engine
from pipelines.plan.forks import need_fork
from pipelines.plan.known import need_sound
from pipelines.plan.local_files import need_files
from pipelines.plan.plan import build_plan
from pipelines.plan.uploads import local_data
from pipelines.runs.runs import RunResult, new_run_id
from pipelines.runs.uploading import upload
from pipelines.runs.view import RunView, choose_view

if TYPE_CHECKING:
    from components.contract.job import Job
    from components.runtime.store import Store
    from pipelines.engines.engine import Engine
    from pipelines.plan.forecast import StageForecast
    from pipelines.plan.plan import Plan
    from pipelines.recipe.recipe import Recipe


def plan_run(
    recipe: Recipe, store: Store, *, engine: str | None = None
) -> tuple[Plan, tuple[StageForecast, ...], Engine | None]:
    """Return what a run would do now, and the engine if one is named; nothing is run or written.

    Raises InputError for data and models of this machine that no stage can use, and for what the engine cannot do.
    """
    from pipelines.plan.forecast import forecast

    need_files(recipe)
    need_sound(recipe)
    chosen = find_engine(engine) if engine is not None else None
    if chosen is not None and chosen.capabilities.uploads:
        recipe = replace(recipe, uploads=tuple(one.upload for one in local_data(recipe)))
    planned = build_plan(recipe, store.uri, "plan")
    if chosen is not None:
        refuse(chosen, planned, store, RunOptions())
    stages = forecast(planned, store, engine or DEFAULT)
    need_fork(planned, store, stages)
    return planned, stages, chosen


def start_run(
    recipe: Recipe,
    store: Store,
    *,
    engine: str,
    options: RunOptions,
    quiet_stdout: bool = False,
    view: Callable[[str, list[Job]], RunView] | None = None,
) -> tuple[Plan, RunResult]:
    """Plan a recipe and run it on an engine; return the plan and how the run ended.

    Raises InputError for what the engine cannot do, before anything runs. With `quiet_stdout` progress goes to stderr;
    `view` makes another view of the run, from its title and its jobs.
    """
    code_version.cache_clear()  # a notebook outlives commits
    chosen = find_engine(engine)
    chosen.check_machine()
    data = local_data(recipe) if chosen.capabilities.uploads else []
    recipe = replace(recipe, uploads=tuple(one.upload for one in data))
    plan = build_plan(recipe, store.uri, new_run_id((recipe.fork and recipe.fork.name) or recipe.name))
    need_fork(plan, store)
    refuse(chosen, plan, store, options)
    upload(data, store)
    publish_code(store, [code for job in plan.jobs for code in job.code])
    jobs = list(plan.jobs)
    shown = view(recipe.name, jobs) if view else choose_view(recipe.name, jobs, quiet_stdout=quiet_stdout)
    return plan, chosen.run(plan, store, shown, options)
