"""reproduce --tune: choose a setting for every arm, and keep it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from components.contract.terminal import visible_line
from pipelines.cli.output import print_table

if TYPE_CHECKING:
    from pipelines.cli.claims.runs import Runs
    from pipelines.methods.tuning import Tuned


def tune(runs: Runs, *, as_json: bool) -> dict[str, Any]:
    """Run every arm with every value of the grid, keep what was chosen, and print it; returns the record.

    Raises StageFailed, and InputError for a recipe without `tuning` or one that is no method.
    """
    from pipelines.methods.methods import method_file
    from pipelines.methods.results import record_tuned
    from pipelines.methods.tuning import tune as tune_arms
    from pipelines.methods.tuning import tuned_json, tuning_of

    recipe = runs.load()
    file = method_file(runs.slug, recipe) if tuning_of(recipe) is not None else None  # before hours of work
    found = tune_arms(recipe, runs.run)
    assert file is not None  # a recipe without `tuning` is refused above
    record = tuned_json(runs.slug, recipe, found)
    path = record_tuned(file, record)
    if not as_json:
        print_tuned(runs.slug, found)
        print(f"kept in {visible_line(str(path))}; 'posttrain reproduce {visible_line(runs.slug)}' uses it")
    return record


def print_tuned(slug: str, found: Tuned) -> None:
    """Print what every arm reached with every value, and what was chosen."""
    words = found.words
    best = "highest" if words.highest else "lowest"
    print(
        visible_line(f"{slug}: {words.of} with the {best} mean of {words.by}, seeds {', '.join(map(str, words.seeds))}")
    )
    rows = []
    for arm in found.arms:
        chosen = f"{found.chosen(arm)}{' (an end of the grid: widen it)' if found.at_edge(arm) else ''}"
        rows.append([arm, *(f"{mean:.4g}" for mean in found.means(arm)), chosen])
    print_table(["arm", *map(str, words.grid), "chosen"], rows)
