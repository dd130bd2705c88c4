"""Writing small recipes in tests."""

from __future__ import annotations

import textwrap
from pathlib import Path

from components.contract.job import reference_text
from pipelines.language.problems import RecipeErrors
from pipelines.recipe.recipe import Recipe, load_recipe
from pipelines.recipe.stage import Stage

BASE = """
base: {uses: pretrain, with: {layers: 2}}
data: {uses: curate}
"""


def write(folder: Path, text: str, name: str = "recipe.yaml") -> Path:
    """Write a recipe file; a text without `name:` gets a head."""
    body = textwrap.dedent(text).lstrip("\n")
    path = folder / name
    path.write_text(body if body.startswith("name:") else f"name: {Path(name).stem}\n{body}")
    return path


def with_stages(stages: str, head: str = "") -> str:
    """Return a recipe of the base stages and some more, with lines of `head` above them."""
    listed = textwrap.indent(BASE.strip() + "\n" + textwrap.dedent(stages).strip(), "  ")
    return f"{textwrap.dedent(head).strip()}\nstages:\n{listed}\n".lstrip("\n")


def load(folder: Path, text: str, *overrides: str) -> Recipe:
    """Write and load a recipe."""
    return load_recipe(str(write(folder, text)), overrides)


def messages(folder: Path, text: str, *overrides: str) -> list[str]:
    """Return the messages with which a recipe is refused, without their files."""
    try:
        load(folder, text, *overrides)
    except RecipeErrors as errors:
        return [f"{p.mark.line}:{p.mark.column} {p.message}" if p.mark.line else str(p) for p in errors.problems]
    raise AssertionError("the recipe is valid")


def stages(recipe: Recipe) -> dict[str, Stage]:
    """Return the stages by name."""
    return {stage.name: stage for stage in recipe.stages}


def sources(stage: Stage) -> dict[str, list[str]]:
    """Return port -> references as text."""
    return {port: [reference_text(reference) for reference in references] for port, references in stage.inputs.items()}
