"""Starts a run: from a recipe's name to an engine that has its plan. Used by every command that runs a recipe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.engines.engine import RunOptions
from pipelines.engines.refusals import refuse
from pipelines.engines.registry import find_engine
from pipelines.plan.plan import build_plan
from pipelines.runs.runs import RunResult, new_run_id
from pipelines.runs.view import choose_view

if TYPE_CHECKING:
    from components.runtime.store import Store
    from pipelines.plan.plan import Plan
    from pipelines.recipe.recipe import Recipe


def start_run(
    recipe: Recipe, store: Store, *, engine: str, options: RunOptions, quiet_stdout: bool = False
) -> tuple[Plan, RunResult]:
    """Plan a recipe and run it on an engine; return the plan and how the run ended.

    Raises InputError for what the engine cannot do, before anything runs. With `quiet_stdout` progress goes to stderr.
    """
    chosen = find_engine(engine)
    chosen.check_machine()
    plan = build_plan(recipe, store.uri, new_run_id(recipe.name))
    refuse(chosen, plan, store, options)
    view = choose_view(recipe.name, list(plan.jobs), quiet_stdout=quiet_stdout)
    return plan, chosen.run(plan, store, view, options)
