"""Systems: recipes in `methods` folders whose `system` block declares which published method they are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from components.contract.errors import InputError
from components.rl.presets import load_preset, preset_files
from pipelines.language.document import read_document
from pipelines.language.find import METHODS, recipe_files, recipe_origin
from pipelines.recipe.hallmark import ARM, SEED
from pipelines.recipe.hallmark_words import METHOD
from pipelines.recipe.recipe import Recipe, load_recipe
from pipelines.recipe.stage import Stage
from pipelines.recipe.system import SystemWords


@dataclass(frozen=True)
class System:
    """A recipe that is a published method."""

    slug: str
    path: Path
    origin: str
    """Folder or package that provides it."""
    recipe: Recipe | None
    """None if it cannot be read."""
    error: str | None = None
    """Why it does not run, in one line; None if it does."""


def list_systems() -> dict[str, System]:
    """Return slug -> system of all recipe folders; a broken one is included with the reason.

    Other recipes in `methods` folders reproduce a preset or compare methods, and are not systems.
    """
    found = {}
    for name, path in sorted(recipe_files().items()):
        slug = name.removeprefix(METHODS)
        if name != slug and (system := read_file(slug, path)) is not None:
            found[slug] = system
    return found


def find_system(slug: str) -> System | None:
    """Return the system of that name, or None; no other one is read."""
    path = recipe_files().get(f"{METHODS}{slug}")
    return None if path is None else read_file(slug, path)


def read_file(slug: str, path: Path) -> System | None:
    """Return the system that a file of a folder `methods` declares, or None if it declares none."""
    origin = recipe_origin(path)
    try:
        if read_document(path).root.child("system") is None:
            return None
    except InputError as error:  # its intended kind is unknown
        return None if slug in preset_files() else System(slug, path, origin, None, _line(error))
    try:
        recipe = load_recipe(str(path))
        return None if recipe.system is None else System(slug, path, origin, recipe, _clash(slug, recipe.system))
    except InputError as error:
        return System(slug, path, origin, None, _line(error))


def outline(recipe: Recipe) -> dict[str, Stage]:
    """Return the stages of a recipe's method by their names in the file, rounds separate; of several seeds the first.

    Stages that all arms share are the method's too.
    """
    found: dict[str, Stage] = {}
    for stage in recipe.stages:
        if stage.labels.get(ARM, METHOD) == METHOD:
            rest = {axis: value for axis, value in stage.labels.items() if axis not in (ARM, SEED)}
            cell = f"[{', '.join(f'{axis}={value}' for axis, value in rest.items())}]" if rest else ""
            found.setdefault(f"{stage.group or stage.name}{cell}", stage)
    return found


def _clash(slug: str, words: SystemWords) -> str | None:
    """Return why a system may not share a preset's name: it must be the same method, in a longer recipe."""
    if slug not in preset_files() or (number := load_preset(slug).catalogue) == words.catalogue:
        return None
    return f"the preset {slug!r} is another method: number {number} of the catalogue, not {words.catalogue}"


def _line(error: InputError) -> str:
    return next(iter(str(error).splitlines()), "cannot be read")
