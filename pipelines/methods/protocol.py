"""The protocol: run a hallmark at more and more seeds until every claim is decided."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pipelines.methods.reproduce import Reproduction
from pipelines.recipe.hallmark import SEED
from pipelines.recipe.layers import override_text
from pipelines.recipe.recipe import Recipe


def seeds_of(recipe: Recipe, count: int) -> list[int]:
    """Return the first `count` seeds of a recipe: its own, then the numbers after them."""
    assert recipe.hallmark is not None
    own = list(recipe.hallmark.seeds)
    return [*own, *range(max(own) + 1, max(own) + 1 + max(0, count - len(own)))][:count]


def seed_override(seeds: Sequence[int]) -> str:
    """Return the override that gives a recipe these seeds."""
    return override_text(f"matrix.{SEED}", list(seeds))


def reproduce(recipe: Recipe, run_at: Callable[[list[int]], Reproduction]) -> Reproduction:
    """Return the measurement of a recipe's hallmark at the first look that settles it, or at the last.

    `run_at` runs the recipe with these seeds and measures it; what ran for an earlier look is not run again. A testbed,
    which claims nothing, is measured at its first look.
    """
    assert recipe.hallmark is not None
    for count in recipe.hallmark.words.looks:
        found = run_at(seeds_of(recipe, count))
        if found.is_settled:
            break
    return found
