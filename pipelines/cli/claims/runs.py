"""Runs of one recipe, again and again: with more seeds, other values, other arms."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from components.contract.terminal import print_error
from pipelines.cli.stores import store_of
from pipelines.language.find import METHODS, recipe_files

if TYPE_CHECKING:
    from pipelines.methods.reproduce import Reproduction
    from pipelines.plan.plan import Plan
    from pipelines.recipe.recipe import Recipe
    from pipelines.runs.measured import Measured


class StageFailed(Exception):
    """A run of the reproduction ended with failures, which are printed."""

    def __init__(self, exit_code: int) -> None:
        super().__init__(exit_code)
        self.exit_code = exit_code


class Runs:
    """Runs of one recipe with the command's settings."""

    def __init__(self, slug: str, arguments: argparse.Namespace) -> None:
        self._arguments, self._store = arguments, store_of(arguments)
        self.slug, self.name = Path(slug).stem, _recipe(slug)
        self.overrides: list[str] = list(arguments.overrides)
        """Those of the command, and what was frozen for every run."""
        self.last: tuple[Plan, Measured, str]

    def load(self, overrides: Sequence[str] = ()) -> Recipe:
        """Return the recipe with the overrides of all runs and these."""
        from pipelines.recipe.recipe import load_recipe

        return load_recipe(self.name, [*self.overrides, *overrides])

    def freeze(self, recipe: Recipe) -> None:
        """Give every arm what was chosen for it, in all runs; nothing for a recipe without `tuning`.

        Raises InputError where the arms are not tuned, or for other work.
        """
        from pipelines.methods.methods import method_file
        from pipelines.methods.results import read_tuned
        from pipelines.methods.tuning import frozen_overrides, tuning_of

        if tuning_of(recipe) is not None:
            tuned = read_tuned(method_file(self.slug, recipe), self.slug)
            self.overrides += frozen_overrides(self.slug, recipe, tuned)

    def run(self, overrides: Sequence[str]) -> tuple[Plan, Measured]:
        """Run with these overrides after those of all runs; raises StageFailed."""
        from pipelines.engines.engine import RunOptions
        from pipelines.engines.start import start_run
        from pipelines.runs.measured import Measured

        options = RunOptions(new=self._arguments.new, jobs=self._arguments.jobs)
        plan, result = start_run(self.load(overrides), self._store, engine="local", options=options, quiet_stdout=True)
        if result.exit_code:
            for stage, error in result.failures.items():
                print_error(f"{stage}: {error}")
            raise StageFailed(result.exit_code)
        self.last = plan, Measured(self._store, result.run_id), result.run_id
        return plan, self.last[1]

    def cpu_seconds(self) -> float:
        """Return the CPU time of all stages behind the last run, those too that it reused."""
        from pipelines.methods.work import work_behind

        return sum(work_behind(self._store, [self.last[2]]).values())

    def at(self, seeds: Sequence[int], overrides: Sequence[str] = ()) -> Reproduction:
        """Run with these seeds and overrides and return the measurement; raises StageFailed."""
        from pipelines.methods.protocol import seed_override
        from pipelines.methods.reproduce import measure

        return measure(self.slug, *self.run([*overrides, seed_override(seeds)]))


def _recipe(slug: str) -> str:
    """Return the recipe of a method, by its name below recipes/methods, or a testbed or path unchanged."""
    name, known = f"{METHODS}{slug}", recipe_files()
    is_testbed = slug in known and name not in known
    return slug if is_testbed or slug.endswith((".yaml", ".yml")) or slug.startswith(METHODS) else name
