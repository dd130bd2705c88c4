"""Commands on runs: run, list, show and report."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.contract.errors import InputError
from components.contract.headlines import in_order
from pipelines.cli.damage import damage_lines
from pipelines.cli.output import print_json, print_styled, print_table, print_text, seconds_text
from pipelines.cli.stopping import terminate_like_interrupt
from pipelines.cli.stores import store_of
from pipelines.report.moves import move_lines
from pipelines.report.undone import undone_lines
from pipelines.runs.alarms import ending_lines
from pipelines.runs.find import find_run
from pipelines.runs.forked import fork_lines

if TYPE_CHECKING:
    from components.contract.artifacts import Manifest
    from components.runtime.store import Store
    from pipelines.plan.costs import StageCost
    from pipelines.recipe.recipe import Recipe

MAX_LISTED_RUNS = 20
MAX_METRICS = 4
DIGEST_LENGTH = 12


def run(arguments: argparse.Namespace) -> int:
    """Run a recipe; the exit code is its outcome."""
    terminate_like_interrupt()
    if arguments.watch:
        from pipelines.cli.watching import watch

        return watch(arguments)
    from pipelines.recipe.recipe import load_recipe

    store = store_of(arguments)
    recipe = load_recipe(arguments.recipe, arguments.overrides, seed=arguments.seed)
    if arguments.cheapest:
        from pipelines.cli.cheapest import on_cheapest_pools

        recipe = on_cheapest_pools(recipe, store, engine=arguments.engine)
    return run_recipe(recipe, store, arguments)


def run_recipe(recipe: Recipe, store: Store, arguments: argparse.Namespace) -> int:
    """Run a recipe as the arguments of `run` ask for, and print how it ended; return the exit code."""
    from pipelines.engines.engine import RunOptions
    from pipelines.engines.start import start_run
    from pipelines.runs.summary import print_ending

    options = RunOptions(new=arguments.new, jobs=arguments.jobs, containers=arguments.containers)
    _, result = start_run(recipe, store, engine=arguments.engine, options=options, quiet_stdout=arguments.json)
    if arguments.json:
        from components.runtime.ledger.ledger import load_run
        from components.runtime.ledger.shown import show_json
        from pipelines.plan.costs import run_cost, with_cost

        record = load_run(store, result.run_id)
        print_json(with_cost(show_json(record), run_cost(store, record.entry, record.stages)))
    else:
        print_ending(store, result)
    return result.exit_code


def list_all(arguments: argparse.Namespace) -> int:
    """List recipes and runs, or one of the two."""
    found: dict[str, list[dict[str, Any]]] = {}
    if arguments.what != "runs":
        found["recipes"] = _recipes()
    if arguments.json and arguments.what != "recipes":
        from components.runtime.ledger.run_list import list_runs

        found["runs"] = list_runs(store_of(arguments))
    if arguments.json:
        print_json(found)
        return 0
    if "recipes" in found:
        _print_recipes(found["recipes"])
    if arguments.what is None:
        print()
    if arguments.what != "recipes":
        from components.runtime.ledger.run_list import newest_runs

        _print_runs(*newest_runs(store_of(arguments), MAX_LISTED_RUNS))
    return 0


def _recipes() -> list[dict[str, Any]]:
    from pipelines.language.document import display_path, read_document
    from pipelines.language.find import recipe_files
    from pipelines.language.problems import RecipeErrors

    found = []
    for name, path in sorted(recipe_files().items()):
        try:
            summary = read_document(path).root.child("summary")
            text = str(summary.value) if summary else ""
        except RecipeErrors as errors:  # one broken recipe must not hide the others
            text = f"cannot be read: {errors.problems[0].message}"
        found.append({"name": name, "summary": text, "path": display_path(path)})
    return found


def _print_recipes(recipes: list[dict[str, Any]]) -> None:
    """Print recipes; method reproductions are only counted, since `posttrain methods` lists them."""
    from pipelines.language.find import METHODS

    shown = [recipe for recipe in recipes if not recipe["name"].startswith(METHODS)]
    rows = [[recipe["name"], recipe["summary"], recipe["path"]] for recipe in shown]
    if len(recipes) > len(shown):
        count = len(recipes) - len(shown)
        rows.append([f"{METHODS}SLUG", f"{count} methods, each beside its baseline: posttrain methods", ""])
    print_table(["recipe", "summary", "file"], rows)


def _print_runs(runs: list[dict[str, Any]], total: int) -> None:
    if not runs:
        print("no runs yet: posttrain run RECIPE")
        return
    rows = [
        [
            entry["run_id"],
            entry["recipe"] or "-",
            entry["status"],
            f"{entry['ended_stages']}/{entry['stages']}",
            (entry["started"] or "-")[:19],
            seconds_text(entry["seconds"]),
        ]
        for entry in runs
    ]
    print_table(["run", "recipe", "status", "stages", "started", "took"], rows)
    if total > len(runs):
        print(f"and {total - len(runs)} older ones (--json lists all)")


def show(arguments: argparse.Namespace) -> int:
    """Show one run: its stages, their metrics and where their outputs are."""
    from components.runtime.ledger.ledger import load_run
    from components.runtime.ledger.shown import show_json
    from pipelines.plan.costs import cost_cell, run_cost, with_cost

    store = store_of(arguments)
    record = load_run(store, find_run(store, arguments.run))
    cost = run_cost(store, {"recipe": "", **record.entry, "run_id": record.run_id}, record.stages)
    shown = with_cost(show_json(record), cost)
    made = {
        output["digest"]: f"{stage['name']}.{port}"
        for stage in shown["stages"]
        for port, output in stage["outputs"].items()
    }
    damaged = damage_lines(store, made)
    if arguments.json:
        print_json(shown | ({"damage": damaged} if damaged else {}))
        return int(bool(record.damaged or damaged))
    took = seconds_text(shown["seconds"])
    about = f"recipe {shown['recipe'] or '-'}, started {shown['started'] or '-'}, took {took}"
    print_text(f"{shown['run_id']}: {shown['status']}, {about}")
    for line in fork_lines(record.entry, record.stages):
        print_text(f"fork {line}")
    for line in move_lines(store, record.run_id, record.entry):
        print_text(f"move {line}")
    if shown["trigger"]:
        print_text(f"started by {shown['trigger']['text']}")
    print()
    rows = [
        [
            stage["name"],
            stage["component"] or "-",
            stage["status"],
            {"hit": "cached", "miss": "ran"}.get(stage["cache"], "-"),
            _waited(cost.stages.get(stage["name"])),
            seconds_text(stage["seconds"]),
            cost_cell(cost.stages.get(stage["name"])),
            _metrics(in_order(str(stage["component"]), stage["metrics"])),
            "  ".join(f"{port} {output['digest'][:DIGEST_LENGTH]}" for port, output in stage["outputs"].items()),
        ]
        for stage in shown["stages"]
    ]
    print_table(["stage", "component", "status", "cache", "waited", "took", "cost", "metrics", "outputs"], rows)
    if words := cost.in_words():
        print(f"\ncost: {words}")
    for stage in shown["stages"]:
        if stage["reason"]:
            print_text(f"\n{stage['name']} was skipped: {stage['reason']}")
    print_alarms(record.alarms)
    for line in undone_lines((stage["name"], str(stage["component"]), stage["metrics"]) for stage in shown["stages"]):
        print_text(f"\nundone in {line}")
    for name, error in record.failed.items():
        goes_on = "; the run went on without it" if name in record.stages else ""
        print_text(f"\n{name} failed: {error}{goes_on}")
        for port, output in record.kept.get(name, {}).items():
            print_text(f"kept of it: {port} {output['digest'][:DIGEST_LENGTH]}")
    for name, text in record.damaged.items():
        print_text(f"\n{name or 'the run'}: its record cannot be read: {text}")
    for line in damaged:
        print_text(f"\n{line}")
    if command := record.entry.get("command"):
        print_text(f"\nreproduce: {command}")
    return int(bool(record.damaged or damaged))


def _waited(cost: StageCost | None) -> str:
    """Return how long a stage waited for cores or a node before its attempts, where its engine told that."""
    known = cost.waited_seconds if cost is not None else None
    return "-" if known is None else seconds_text(known)


def print_alarms(alarms: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """Print the alarms of each stage, red in a terminal."""
    for stage, raised in alarms.items():
        for wrong, helps in ending_lines(stage, raised):
            print()
            print_styled(wrong, "red")
            if helps:
                print_text(helps)


def _metrics(metrics: dict[str, float]) -> str:
    shown = [f"{name} {value:.4g}" for name, value in list(metrics.items())[:MAX_METRICS]]
    more = [f"and {len(metrics) - MAX_METRICS} more"] if len(metrics) > MAX_METRICS else []
    return "  ".join([*shown, *more])


def report(arguments: argparse.Namespace) -> int:
    """Make a run's report, or one of several runs, from the store and print its path; copy it on request."""
    store = store_of(arguments)
    told, manifest = _report_of(store, arguments.runs)
    page = store.fetch(manifest.digest) / "index.html"
    place = str(page)
    if arguments.output:
        place = str(_copy(page, Path(arguments.output)))
    if arguments.json:
        print_json(told | {"digest": manifest.digest, "uri": store.artifact_uri(manifest.digest), "page": place})
    else:
        print_text(place)
    return 0


def _report_of(store: Store, texts: list[str]) -> tuple[dict[str, Any], Manifest]:
    """Return whose report it is, for scripts, and the report."""
    if len(texts) == 1:
        from pipelines.report.page import build_report

        run_id = find_run(store, texts[0])
        return {"run_id": run_id}, build_report(store, run_id)
    from pipelines.cli.compare import sides_of
    from pipelines.report.several.page import build_page

    sides = sides_of(store, texts)
    return {"sides": [side.title(sides) for side in sides]}, build_page(store, sides)


def _copy(page: Path, target: Path) -> Path:
    target = target / "index.html" if target.is_dir() else target
    try:
        shutil.copyfile(page, target)
    except OSError as error:
        raise InputError(f"{target}: {error.strerror}") from None
    print(f"copied from {page}", file=sys.stderr)
    return target
