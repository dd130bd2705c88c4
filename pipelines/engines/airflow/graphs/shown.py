"""The drawings of all recipes that Airflow shows: kept ones, and new ones, which are kept for the next time.

python -m pipelines.engines.airflow.graphs.shown    keeps them all, for an image; imports no Airflow
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from components.contract.errors import InputError
from components.contract.terminal import visible
from pipelines.engines.airflow.catalog import shown_recipes
from pipelines.engines.airflow.graphs.cache import Drawn, Graphs
from pipelines.engines.airflow.graphs.drawing import Drawing
from pipelines.engines.airflow.names import dag_id
from pipelines.language.find import recipe_files

if TYPE_CHECKING:
    from pipelines.recipe.recipe import Recipe


def shown_drawings(problems: list[str], *, settled: bool = False) -> dict[str, Drawing]:
    """Return name -> drawing of the recipes that are shown, and add to `problems` why others cannot be read.

    `settled`: the code is not being changed, whatever its files' times say. Raises InputError without pools.
    """
    known = recipe_files()
    graphs = Graphs.here(known)
    found: dict[str, Drawing] = {}
    made: list[Drawn] = []
    for name, path in shown_recipes().items():
        drawing = graphs.find(name, path)
        if drawing is None:
            try:
                recipe = read(path)
            except InputError as error:
                problems.append(str(error))
                continue
            drawing = drawing_of(recipe, dag_id(name))
            named = recipe.trees or (recipe.files and recipe.files.named)
            if not named:  # an operator's file may import any other
                made.append(Drawn(name, path, drawing, {one.path: one.text for one in recipe.documents}))
        found[name] = drawing
    (replace(graphs, settled=True) if settled else graphs).keep(made, known)
    return found


def read(path: Path) -> Recipe:
    """Return the recipe of a file with all stages that any parameters can ask for; raise InputError for mistakes."""
    from pipelines.recipe.recipe import load_recipe

    return load_recipe(str(path), whole=True)


def drawing_of(recipe: Recipe, name: str) -> Drawing:
    """Return the drawing of a recipe whose DAG has the id `name`."""
    from pipelines.engines.airflow.graphs.draw import draw

    return draw(recipe, name)


def main() -> int:
    """Keep all drawings; the exit code is 2 if a recipe cannot be read."""
    problems: list[str] = []
    try:
        print(f"{len(shown_drawings(problems, settled=True))} recipes drawn")
    except InputError as error:
        problems.append(str(error))
    print(*map(visible, problems), sep="\n", end="\n" if problems else "", file=sys.stderr)
    return 2 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
