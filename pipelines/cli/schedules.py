"""posttrain schedule: hand a recipe's schedule to an engine that keeps it, or switch it off; list what is kept."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING

from components.contract.errors import InputError
from pipelines.cli.output import print_json, print_table
from pipelines.cli.stores import store_of

if TYPE_CHECKING:
    from pipelines.engines.engine import Engine, KeptSchedule


def schedule(arguments: argparse.Namespace) -> int:
    """Keep, end or list schedules of an engine."""
    from pipelines.engines.registry import find_engine

    engine = find_engine(arguments.engine)
    found = [_changed(engine, arguments)] if arguments.recipe else _listed(engine, arguments)
    if arguments.json:
        print_json([asdict(one) for one in found])
        return 0
    if not found:
        print(f"engine {engine.name} keeps no schedule of a recipe: posttrain schedule RECIPE --engine {engine.name}")
        return 0
    rows = [[one.name, _state(one, arguments.delete), one.when, one.next or "-", one.page] for one in found]
    print_table(["recipe", "schedule", "when", "next", "page"], rows)
    return 0


def _state(kept: KeptSchedule, deleted: bool) -> str:
    return "deleted" if deleted else "on" if kept.on else "off"


def _listed(engine: Engine, arguments: argparse.Namespace) -> list[KeptSchedule]:
    if arguments.off or arguments.delete:
        raise InputError("whose schedule? posttrain schedule RECIPE --off")
    return engine.kept_schedules(store_of(arguments))


def _changed(engine: Engine, arguments: argparse.Namespace) -> KeptSchedule:
    from components.runtime.ledger.code_trees import publish_code
    from pipelines.engines.refusals import schedule_refusals
    from pipelines.recipe.recipe import load_recipe

    recipe = load_recipe(arguments.recipe, arguments.overrides, seed=arguments.seed)
    store = store_of(arguments)
    if arguments.off or arguments.delete:
        return engine.end_schedule(recipe, store, delete=arguments.delete)
    if recipe.schedule is None:
        raise InputError(f"recipe {recipe.name!r} has no 'schedule', such as schedule: {{cron: '0 3 * * *'}}")
    if refused := schedule_refusals(engine, recipe.schedule):
        raise InputError("\n".join(refused))
    publish_code(store, [code for stage in recipe.stages for code in stage.code])
    return engine.keep_schedule(recipe, store)
