"""Local files that stages read beside their inputs, such as tables: their paths, and whether they exist."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from components.contract.errors import InputError
from pipelines.language.problems import Mark, Problem, RecipeErrors
from pipelines.recipe.operators import configs_with_paths
from pipelines.recipe.recipe import Recipe
from pipelines.recipe.stage import Stage


def local_files(stage: Stage, uploaded: Collection[str] = ()) -> list[Path]:
    """Return the files that its operators name, but for `uploaded` paths. Raises InputError for one not found."""
    configs = [config for _, config in configs_with_paths(stage.config)]
    left = [one for one in configs if getattr(one, "path", None) not in uploaded]
    return [path for config in left for path in config.local_files()]


def missing_files(recipe: Recipe) -> Iterator[tuple[Stage, Mark, str]]:
    """Yield each stage that would not find a file on this machine, where the file is named, and the error."""
    for stage in recipe.stages:
        for path, config in configs_with_paths(stage.config):
            try:
                config.local_files()
            except InputError as error:
                yield stage, stage.operator_marks.get(path, stage.mark), str(error)


def need_files(recipe: Recipe) -> None:
    """Raise RecipeErrors if a stage would not find a file on this machine, where all stages run."""
    if missing := [Problem(mark, f"stage {stage.name!r}: {text}") for stage, mark, text in missing_files(recipe)]:
        raise RecipeErrors(missing)
