"""The command fork: a run that goes on from a checkpoint of another one, with other parameters from there on."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from pipelines.cli.stores import store_of
from pipelines.runs.find import find_run
from pipelines.runs.recipe_of import forked_recipe

if TYPE_CHECKING:
    pass


def fork(arguments: argparse.Namespace) -> int:
    """Run the recipe of a run again from one of its checkpoints on; the exit code is the outcome."""
    from pipelines.cli.runs import run_recipe
    from pipelines.cli.stopping import stop_once

    stop_once()
    store = store_of(arguments)
    run_id, words = find_run(store, arguments.run), {"at": arguments.at, "name": arguments.name}
    recipe = forked_recipe(store, run_id, arguments.overrides, words, where=arguments.recipe)
    return run_recipe(recipe, store, arguments)
