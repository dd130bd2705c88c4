"""Where recipes are: by name below pipelines/recipes and the folders of POSTTRAIN_RECIPES, or by path."""

from __future__ import annotations

import os
import re
from pathlib import Path

from components.contract.component import NAME
from components.contract.errors import InputError
from components.contract.registry import Folder, registered_folders
from pipelines.language.problems import meant, shown

FOLDER = Path(__file__).parents[1] / "recipes"
ORIGIN = "pipelines/recipes"
"""Display name of the folder above in tables."""
VARIABLE = "POSTTRAIN_RECIPES"
GROUP = "posttrain.recipes"
"""Entry points of packages that provide recipes: each names a Python package whose folder is searched."""
METHODS = "methods/"
"""Name prefix of the recipes that reproduce a method."""
SUFFIXES = (".yaml", ".yml")
MAX_NAME_LENGTH = 63
"""A recipe or stage name must fit into a DNS label: engines name pods and tasks after it."""


def recipe_folders() -> list[Folder]:
    """Return the searched folders in order: the user's own, those of installed packages, the shipped ones."""
    own = [Folder(Path(folder), folder) for folder in os.environ.get(VARIABLE, "").split(os.pathsep) if folder]
    return [*own, *registered_folders(GROUP), Folder(FOLDER, ORIGIN)]


def recipe_files() -> dict[str, Path]:
    """Return name -> file of every recipe found; the first folder wins.

    The name is the file's stem, and `methods/<stem>` for those in a folder `methods`.
    """
    found: dict[str, Path] = {}
    for folder in (found.folder for found in recipe_folders()):
        for path in sorted(folder.rglob("*")):
            if path.suffix in SUFFIXES and path.is_file():
                prefix = METHODS if path.parent == folder / "methods" else ""
                found.setdefault(f"{prefix}{path.stem}", path)
    return found


def recipe_origin(path: Path) -> str:
    """Return which folder or package provides a recipe found by name."""
    return next((folder.origin for folder in recipe_folders() if path.is_relative_to(folder.folder)), str(path.parent))


def recipe_name(path: Path) -> str | None:
    """Return the name under which a recipe's file is found, or None if only its path finds it."""
    return next((name for name, found in recipe_files().items() if found.absolute() == path.absolute()), None)


IN_FOLDER = "recipe.yaml"
"""The recipe of a folder that is given as one."""


def find_recipe(name_or_path: str, *, folders: bool = True) -> Path:
    """Return the file of a recipe given by name or path; raise InputError with near misses.

    With `folders`, a folder that holds a recipe.yaml means that file; names of recipes come first.
    """
    if not name_or_path.endswith(SUFFIXES):
        known = recipe_files()
        if name_or_path in known:
            return known[name_or_path]
        if folders and (inside := _in_folder(name_or_path)):
            return inside
        if "/" not in name_or_path and os.sep not in name_or_path:
            raise InputError(f"unknown recipe {shown(name_or_path)}{meant(name_or_path, known)}")
        if name_or_path.startswith(METHODS):
            methods = [name for name in known if name.startswith(METHODS)]
            raise InputError(f"unknown recipe {shown(name_or_path)}{meant(name_or_path, methods)}")
    path = Path(name_or_path).expanduser()
    if "\0" in name_or_path or not path.exists():
        raise InputError(f"recipe {shown(name_or_path)}: no such file")
    if not path.is_file():
        what = "a folder" if path.is_dir() else "no plain file"
        raise InputError(f"recipe {shown(name_or_path)} is {what}; name a recipe or its YAML file")
    return path


def _in_folder(name_or_path: str) -> Path | None:
    if "\0" in name_or_path:
        return None
    inside = Path(name_or_path).expanduser() / IN_FOLDER
    return inside if inside.is_file() else None


def find_parent(reference: str, child: Path) -> Path:
    """Return the file that `extends: reference` means in `child`: a name, or a path below the child's folder.

    Raises InputError; paths that leave the folder are refused, since a recipe may be untrusted.
    """
    if all(map(is_name, reference.split("/"))):
        return find_recipe(reference, folders=False)
    if not re.fullmatch(r"(\./)?[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*\.ya?ml", reference):
        raise InputError(
            f"{shown(reference)} is neither the name of a recipe nor a relative path below this file's folder"
        )
    path = child.parent / reference
    if not path.is_file():
        beside = [str(p.relative_to(child.parent)) for p in child.parent.glob("*.y*ml") if p != child]
        raise InputError(f"no file {shown(reference)} beside the recipe{meant(reference, beside)}")
    return path


def is_name(text: str) -> bool:
    """Return whether `text` may name a recipe, stage, parameter or axis."""
    return len(text) <= MAX_NAME_LENGTH and NAME.fullmatch(text) is not None
