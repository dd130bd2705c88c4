"""What a pool decides where the recipe does not, in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pipelines.recipe.recipe import Recipe


def pool_defaults(recipe: Recipe) -> Iterator[tuple[str, str]]:
    """Yield (stage, remark) for parameters that depend on the stage's pool and that the recipe leaves open."""
    for stage in recipe.stages:
        resources = recipe.pools[stage.pool].resources(stage.pool, stage.backend)
        settled = stage.component.settled(stage.config, resources)
        before, after = stage.config.model_dump(mode="json"), settled.model_dump(mode="json")
        changed = [f"{name} {_words(value)}" for name, value in after.items() if value != before[name]]
        if changed:
            yield stage.name, f"pool {stage.pool} sets {' and '.join(changed)}; what the stage sets itself stays"


def _words(value: Any) -> str:
    """Return a value, and of operators their names."""
    if isinstance(value, list):
        return ", ".join(map(_words, value))
    return str(value["name"]) if isinstance(value, dict) and "name" in value else str(value)
