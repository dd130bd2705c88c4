"""Commands on recipes: validate and plan."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from components.contract.errors import InputError
from components.contract.memory import MemoryKind
from components.contract.terminal import visible
from components.runtime.costs.amounts import total
from components.runtime.costs.words import amount_text
from pipelines.cli.cheapest import on_cheapest_pools
from pipelines.cli.output import print_json, print_table, print_text, problems_json
from pipelines.cli.plan_table import HEAD, plan_rows
from pipelines.cli.stores import store_of
from pipelines.language.problems import RecipeErrors
from pipelines.plan.advice import advice
from pipelines.plan.budgets import budget_lines
from pipelines.plan.first_prompts import first_prompts
from pipelines.plan.known import need_sound
from pipelines.plan.local_files import missing_files
from pipelines.plan.memory import Fit, memory_fits, stages_of_unknown_models
from pipelines.plan.shown import cost_of, plan_json
from pipelines.recipe.recipe import Recipe, load_recipe
from pipelines.recipe.schedule.summary import schedule_lines
from pipelines.recipe.sweep.summary import sweep_lines

if TYPE_CHECKING:
    from pipelines.plan.forecast import StageForecast
    from pipelines.plan.plan import Plan


def validate(arguments: argparse.Namespace) -> int:
    """Check recipes; show every mistake of each; the exit code is 2 if there is any."""
    results = [_validate(name, arguments) for name in arguments.recipe]
    if arguments.json:
        print_json(results[0] if len(results) == 1 else results)
    return 0 if all(result["valid"] for result in results) else InputError.exit_code


def _validate(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    try:
        recipe = load_recipe(name, arguments.overrides, seed=arguments.seed)
        need_sound(recipe)
    except InputError as error:
        if not arguments.json:
            print(visible(str(error if isinstance(error, RecipeErrors) else f"posttrain: {error}")), file=sys.stderr)
        return {"recipe": name, "valid": False, "problems": problems_json(error)}
    if not arguments.json:
        lacking = ", but its data is not on this machine" if any(missing_files(recipe)) else ""
        print_text(f"{recipe.name}: valid, {_stages(recipe)}{_left_out(recipe)}{lacking}")
        _print_notes(recipe)
    stages = [stage.name for stage in recipe.stages]
    shards = dict(Counter(stage.shard_of for stage in recipe.stages if stage.shard_of))
    found = {"recipe": recipe.name, "valid": True, "problems": [], "stages": stages, "notes": advice(recipe)}
    return found | ({"shards": shards} if shards else {})


def plan(arguments: argparse.Namespace) -> int:
    """Show what a run would do now, without running or writing anything."""
    from pipelines.engines.refusals import schedule_refusals
    from pipelines.engines.start import plan_run

    store = store_of(arguments)
    recipe = load_recipe(arguments.recipe, arguments.overrides, seed=arguments.seed)
    if arguments.cheapest:
        recipe = on_cheapest_pools(recipe, store, engine=arguments.engine)
    planned, stages, engine = plan_run(recipe, store, engine=arguments.engine)
    if arguments.json:
        print_json(plan_json(planned, stages) | ({"engine": engine.name} if engine else {}))
    else:
        _print_plan(planned, stages)
        if engine:
            for line in schedule_refusals(engine, recipe.schedule):
                print_text(line)
            print(f"engine {engine.name}: {engine.summary} ({', '.join(engine.capabilities.names())})")
    return 0


def _print_plan(planned: Plan, stages: Sequence[StageForecast]) -> None:
    recipe = planned.recipe
    print_text(f"{recipe.name}: {recipe.summary}" if recipe.summary else recipe.name)
    facts = [_stages(recipe), f"seed {recipe.seed}", f"store {planned.store}"]
    print_text(" | ".join([*facts, *_values(recipe)]))
    if fork := recipe.fork:
        print_text(f"fork of run {fork.run}, from {fork.place} on: what is before it is shared, and in no estimate")
    print()
    print_table(HEAD, plan_rows(planned, stages))
    for line in sweep_lines(recipe.sweep) if recipe.sweep else ():
        print_text(line)
    for line in schedule_lines(recipe.schedule) if recipe.schedule else ():
        print_text(line)
    for left in recipe.left_out:
        print_text(f"left out: {left.name} ({left.reason})")
    print()
    print(_totals(stages))
    for line in budget_lines(recipe, stages):
        print_text(line)
    _print_memory(recipe)
    for prompt in first_prompts(recipe):
        print_text(prompt.line)
    _print_notes(recipe)


def _values(recipe: Recipe) -> list[str]:
    """Return the parameters and their values, without mappings: they hold settings, from which the others choose."""
    return [f"{name} = {value}" for name, value in recipe.params.items() if not isinstance(value, dict)]


def _print_memory(recipe: Recipe) -> None:
    """Print the estimated memory of the stages, the largest of each pool."""
    largest: dict[tuple[str, str], Fit] = {}
    for fit in (fit for fits in memory_fits(recipe).values() for fit in fits):
        key = fit.pool, fit.where
        if key not in largest or fit.need_gib > largest[key].need_gib:
            largest[key] = fit
    for fit in largest.values():
        limit = "" if fit.limit_gib is None else f" of {fit.limit_gib:g}"
        parts = "" if fit.where is MemoryKind.HOST else f" ({fit.estimate.parts_in_words(fit.where)})"
        print_text(f"memory: {fit.stage} about {fit.need_gib:.2g}{limit} GiB {fit.where} of pool {fit.pool}{parts}")
    if unknown := stages_of_unknown_models(recipe):
        print_text(f"memory: not known for {', '.join(unknown)}: the sizes of their model are not on this machine")


def _print_notes(recipe: Recipe) -> None:
    for note in advice(recipe):
        print_text(f"note: {note}")


def _totals(stages: Sequence[StageForecast]) -> str:
    counts = Counter(stage.outlook.value for stage in stages)
    parts = [
        f"{counts[name]} {text}"
        for name, text in (("cached", "cached"), ("run", "to run"), ("skip", "skipped"))
        if counts[name]
    ]
    pools = Counter(stage.job.resources.pool for stage in stages if stage.outlook.value == "run")
    if pools:
        parts.append("on " + ", ".join(f"{pool} ({count})" for pool, count in sorted(pools.items())))
    return "; ".join([*parts, *_cost_words(stages)])


def _cost_words(stages: Sequence[StageForecast]) -> Iterator[str]:
    """Yield what the plan is estimated to cost, and what it saves."""
    will_run = [stage for stage in stages if stage.outlook.value == "run"]
    without = sum(stage.amount is None for stage in will_run)
    if will_run and without == len(will_run):
        yield "cost: no basis, none of these stages has run before on such a pool and model"
    elif will_run:
        missing = f", and {without} stage{'' if without == 1 else 's'} without a basis" if without else ""
        basis = "as measured" if will_run[0].startup_measured else f"{will_run[0].startup:g} s a stage assumed"
        yield f"cost: about {amount_text(cost_of(stages))} (start-up included, {basis}){missing}"
    saved = total(stage.saved for stage in stages)
    if saved.hours:
        yield f"saved by the cache: {amount_text(saved)}"


def _stages(recipe: Recipe) -> str:
    """Return how many stages a recipe has, as it says them, and how many shards these have."""
    shards = sum(bool(stage.shard_of) for stage in recipe.stages)
    count = len(recipe.stages) - shards
    beside = f" and {shards} shard{'' if shards == 1 else 's'}" if shards else ""
    return f"{count} stage{'' if count == 1 else 's'}{beside}"


def _left_out(recipe: Recipe) -> str:
    return f" ({len(recipe.left_out)} left out by when)" if recipe.left_out else ""
