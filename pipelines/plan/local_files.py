"""Local files that stages read beside their inputs, such as tables: their paths, and whether they exist."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from components.contract.errors import InputError
from pipelines.language.problems import Problem, RecipeErrors
from pipelines.recipe.operators import configs_with_paths
from pipelines.recipe.recipe import Recipe
from pipelines.recipe.stage import Stage


def local_files(stage: Stage) -> list[Path]:
    """Return the files that its operators name. Raises InputError for a file not found."""
    return [path for _, config in configs_with_paths(stage.config) for path in config.local_files()]


def missing_files(recipe: Recipe) -> Iterator[tuple[Stage, str]]:
    """Yield each stage that would not find a file on this machine, and its error."""
    for stage in recipe.stages:
        try:
            local_files(stage)
        except InputError as error:
            yield stage, str(error)


def need_files(recipe: Recipe) -> None:
    """Raise RecipeErrors if a stage would not find a file on this machine, where all stages run."""
    if missing := [Problem(stage.mark, f"stage {stage.name!r}: {text}") for stage, text in missing_files(recipe)]:
        raise RecipeErrors(missing)
