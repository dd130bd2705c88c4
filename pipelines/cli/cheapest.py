"""The option --cheapest: each stage runs on the pool on which it costs least for the same progress."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from components.contract.terminal import visible

if TYPE_CHECKING:
    from components.runtime.store import Store
    from pipelines.recipe.recipe import Recipe


def on_cheapest_pools(recipe: Recipe, store: Store, *, engine: str | None, same_work: bool = False) -> Recipe:
    """Return a recipe with the cheapest pool of each stage that will run, as overrides; tell which on stderr."""
    from pipelines.engines.start import plan_run
    from pipelines.plan.cheapest import cheapest
    from pipelines.recipe.recipe import load_recipe

    _, stages, _ = plan_run(recipe, store, engine=engine)
    chosen = cheapest(recipe, store, stages, same_work=same_work)
    for offer in chosen:
        print(visible(f"cheapest: {offer.words}"), file=sys.stderr)
    if not chosen:
        print("cheapest: no pool costs less for the same progress; prices are in the pools file", file=sys.stderr)
        return recipe
    return load_recipe(str(recipe.path), [*recipe.overrides, *(offer.override for offer in chosen)])
