"""Commands on recipes: validate and plan."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from components.contract.errors import InputError
from components.contract.job import FirstOf, reference_text
from components.contract.memory import GIB, MemoryKind
from components.contract.terminal import visible
from components.runtime.costs.amounts import Amount, total
from components.runtime.costs.words import amount_text
from pipelines.cli.output import print_json, print_table, print_text, problems_json, seconds_text
from pipelines.cli.stores import store_of
from pipelines.language.problems import RecipeErrors
from pipelines.plan.advice import advice
from pipelines.plan.known import need_sound
from pipelines.plan.local_files import missing_files, need_files
from pipelines.plan.memory import Fit, memory_fits, stages_of_unknown_models
from pipelines.recipe.recipe import Recipe, load_recipe
from pipelines.recipe.sweep.summary import sweep_json, sweep_lines

if TYPE_CHECKING:
    from components.runtime.store import Store
    from pipelines.engines.engine import Engine
    from pipelines.plan.forecast import StageForecast
    from pipelines.plan.plan import Plan
    from pipelines.recipe.stage import Stage


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
        print_text(f"{recipe.name}: valid, {_stages(len(recipe.stages))}{_left_out(recipe)}{lacking}")
        _print_notes(recipe)
    stages = [stage.name for stage in recipe.stages]
    return {"recipe": recipe.name, "valid": True, "problems": [], "stages": stages, "notes": advice(recipe)}


def plan(arguments: argparse.Namespace) -> int:
    """Show what a run would do now, without running or writing anything."""
    from pipelines.plan.forecast import forecast
    from pipelines.plan.plan import build_plan

    recipe = load_recipe(arguments.recipe, arguments.overrides, seed=arguments.seed)
    need_files(recipe)
    need_sound(recipe)
    store = store_of(arguments)
    planned = build_plan(recipe, store.uri, "plan")
    engine = _checked_engine(arguments.engine, planned, store)
    stages = forecast(planned, store)
    if arguments.json:
        print_json(plan_json(planned, stages) | ({"engine": engine.name} if engine else {}))
    else:
        _print_plan(planned, stages)
        if engine:
            print(f"engine {engine.name}: {engine.summary} ({', '.join(engine.capabilities.names())})")
    return 0


def _checked_engine(name: str | None, planned: Plan, store: Store) -> Engine | None:
    """Return the named engine, if any; raise InputError for what the plan needs and it cannot do."""
    if name is None:
        return None
    from pipelines.engines.engine import RunOptions
    from pipelines.engines.refusals import refuse
    from pipelines.engines.registry import find_engine

    engine = find_engine(name)
    refuse(engine, planned, store, RunOptions())
    return engine


def plan_json(planned: Plan, stages: Sequence[StageForecast]) -> dict[str, Any]:
    """Return a plan as JSON for scripts."""
    recipe = planned.recipe
    return {
        "recipe": recipe.name,
        "summary": recipe.summary,
        "seed": recipe.seed,
        "params": recipe.params,
        "plan_digest": planned.digest,
        "store": planned.store,
        "sweep": sweep_json(recipe.sweep) if recipe.sweep else None,
        "stages": [_stage_json(stage) for stage in stages],
        "left_out": [{"name": left.name, "reason": left.reason} for left in recipe.left_out],
        "gpu_hours": _total([stage.gpu_hours for stage in stages]),
        "without_basis": [stage.job.stage for stage in stages if stage.gpu_hours is None],
        "cost": _cost(stages).to_json(),
        "memory": {name: _memory_json(fits) for name, fits in memory_fits(recipe).items()},
        "notes": advice(recipe),
    }


def _memory_json(fits: Sequence[Fit]) -> list[dict[str, Any]]:
    return [
        {
            "where": fit.where,
            "need_gib": round(fit.need_gib, 3),
            "limit_gib": fit.limit_gib,
            "parts": {name: round(size / GIB, 4) for name, size in fit.estimate.parts(fit.where).items()},
        }
        for fit in fits
    ]


def _stage_json(stage: StageForecast) -> dict[str, Any]:
    job = stage.job
    return {
        "name": job.stage,
        "component": job.component,
        "pool": job.resources.pool,
        "cached": stage.outlook.value == "cached",
        "outlook": stage.outlook.value,
        "reason": stage.reason,
        "fingerprint": stage.fingerprint,
        "after": job.after,
        "labels": job.labels,
        "group": job.group,
        "seed": job.seed,
        "when": job.when,
        "needs_approval": job.approve is not None,
        "inputs": {port: [reference_text(ref) for ref in refs] for port, refs in stage.inputs.items()},
        "may_be_skipped": stage.may_be_skipped,
        "seconds": stage.seconds,
        "gpu_hours": stage.gpu_hours,
        "cost": stage.amount.to_json() if stage.amount else None,
    }


def _print_plan(planned: Plan, stages: Sequence[StageForecast]) -> None:
    recipe = planned.recipe
    print_text(f"{recipe.name}: {recipe.summary}" if recipe.summary else recipe.name)
    facts = [_stages(len(stages)), f"seed {recipe.seed}", f"store {planned.store}"]
    print_text(" | ".join([*facts, *_values(recipe)]))
    print()
    rows = [
        [
            job.stage,
            job.component,
            job.resources.pool,
            stage.outlook.value,
            _conditions(stage) + "; ".join([stage.reason, *_fallbacks(stage, planned.stage(stage.job.stage))]),
            seconds_text(stage.seconds) if stage.outlook.value == "run" else "",
            ", ".join(job.after) or "-",
        ]
        for stage in stages
        for job in [stage.job]
    ]
    print_table(["stage", "component", "pool", "will", "why", "about", "after"], rows)
    for line in sweep_lines(recipe.sweep) if recipe.sweep else ():
        print_text(line)
    for left in recipe.left_out:
        print_text(f"left out: {left.name} ({left.reason})")
    print()
    print(_totals(stages))
    _print_memory(recipe)
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


def _conditions(stage: StageForecast) -> str:
    job = stage.job
    parts = [f"if {job.when}: "] if job.when and stage.outlook.value == "run" else []
    parts += ["unless an input is skipped: "] if stage.may_be_skipped and not job.when else []
    return "".join([*parts, "after approval: " if job.approve and stage.outlook.value == "run" else ""])


def _fallbacks(forecast: StageForecast, stage: Stage) -> list[str]:
    """Return which inputs a stage takes instead of others, where known."""
    found = []
    for port, references in forecast.job.inputs.items():
        left = forecast.inputs.get(port, ())
        is_open = any(isinstance(ref, FirstOf) for ref in left)
        takes = ", ".join(map(reference_text, left)) or "nothing"
        replaced = port in stage.without or any(isinstance(ref, FirstOf) for ref in references)
        if replaced and forecast.outlook.value != "skip":
            found.append(f"input {port} takes {takes}" + (" (the run decides)" if is_open else ""))
    found += [f"input {port} takes nothing" for port in stage.without if port not in forecast.job.inputs]
    return found


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


def _cost(stages: Sequence[StageForecast]) -> Amount:
    """Return what the stages take that have a basis for an estimate."""
    return total(stage.amount for stage in stages if stage.amount is not None)


def _cost_words(stages: Sequence[StageForecast]) -> Iterator[str]:
    """Yield what the plan is estimated to cost, and what it saves."""
    will_run = [stage for stage in stages if stage.outlook.value == "run"]
    without = sum(stage.amount is None for stage in will_run)
    if will_run and without == len(will_run):
        yield "cost: no basis, none of these stages has run before"
    elif will_run:
        missing = f", and {without} stage{'' if without == 1 else 's'} without a basis" if without else ""
        yield f"cost: about {amount_text(_cost(stages))}{missing}"
    saved = total(stage.saved for stage in stages)
    if saved.hours:
        yield f"saved by the cache: {amount_text(saved)}"


def _total(values: Sequence[float | None]) -> float:
    return round(sum(value for value in values if value is not None), 4)


def _stages(count: int) -> str:
    return f"{count} stage{'' if count == 1 else 's'}"


def _left_out(recipe: Recipe) -> str:
    return f" ({len(recipe.left_out)} left out by when)" if recipe.left_out else ""
