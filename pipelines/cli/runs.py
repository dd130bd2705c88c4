"""Commands on runs: run, list and report."""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.contract.errors import InputError
from pipelines.cli.output import print_json, print_table, print_text, seconds_text
from pipelines.cli.stopping import stop_once
from pipelines.cli.stores import store_of
from pipelines.runs.find import find_run

if TYPE_CHECKING:
    from components.contract.artifacts import Manifest
    from components.runtime.store import Store
    from pipelines.recipe.recipe import Recipe

MAX_LISTED_RUNS = 20


def run(arguments: argparse.Namespace) -> int:
    """Run a recipe; the exit code is its outcome."""
    stop_once()
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
