"""A new recipe in a folder of its own, from a shipped recipe or from the template for one's own data."""

from __future__ import annotations

import re
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from components.contract.errors import InputError, UnknownName
from pipelines.language.find import FOLDER, MAX_NAME_LENGTH, is_name
from pipelines.language.problems import shown

RECIPE = "recipe.yaml"
"""Name of the recipe's file in its folder."""


@dataclass(frozen=True)
class Template:
    """Files that a recipe starts as."""

    summary: str
    recipe: Path
    """Its recipe; the name in it becomes the new one's."""
    beside: tuple[Path, ...] = ()
    """Files and folders that are copied beside the recipe."""


_OWN = Path(__file__).parent / "own_data"
TEMPLATES: Mapping[str, Template] = {
    "quickstart": Template("cold start, RL, replay and selection on generated tasks", FOLDER / "quickstart.yaml"),
    "dpo": Template("preference optimisation on pairs of a model's own responses", FOLDER / "dpo.yaml"),
    "gsm8k": Template("SFT and RL of a real base model on GSM8K", FOLDER / "gsm8k.yaml", (FOLDER / "gsm8k",)),
    "own-data": Template(
        "RL with your own reward on your own prompts and answers, at two learning rates",
        _OWN / RECIPE,
        (_OWN / "my_reward.py", _OWN / "rows.jsonl"),
    ),
}


def write_new(target: str, template: str) -> list[Path]:
    """Write a recipe into the new folder `target`, named by its last part; return the files, the recipe first.

    The folder appears whole or not at all. Raises InputError for a name that no recipe can have and for anything that
    is there already, and UnknownName for the template.
    """
    if template not in TEMPLATES:
        raise UnknownName("template", template, TEMPLATES)
    if "\0" in target:
        raise InputError(f"{shown(target)} is no path")
    folder = Path(target).expanduser()
    if not is_name(folder.name):
        raise InputError(
            f"{shown(folder.name)} cannot name a recipe: a-z first, then a-z, 0-9, '-' and '_', at most "
            f"{MAX_NAME_LENGTH} characters"
        )
    if folder.exists() or folder.is_symlink():
        raise InputError(f"{shown(str(folder))} is there already, and nothing was written; choose another name")
    if not folder.parent.is_dir():
        raise InputError(f"there is no folder {shown(str(folder.parent))} to write {shown(folder.name)} into")
    part = folder.with_name(f".{folder.name}-{secrets.token_hex(4)}")
    try:
        part.mkdir()
        _fill(part, TEMPLATES[template], template, folder.name)
        part.rename(folder)
    except OSError as error:
        shutil.rmtree(part, ignore_errors=True)
        raise InputError(f"cannot write {shown(str(folder))}: {error.strerror or error}") from error
    return [folder / RECIPE, *sorted(path for path in folder.rglob("*") if path.is_file() and path.name != RECIPE)]


def _fill(part: Path, template: Template, old: str, new: str) -> None:
    text = template.recipe.read_text(encoding="utf-8")
    (part / RECIPE).write_text(renamed(text, old, new), encoding="utf-8")
    for path in template.beside:
        copy = shutil.copytree if path.is_dir() else shutil.copyfile
        copy(path, part / path.name)


def renamed(text: str, old: str, new: str) -> str:
    """Return a recipe under another name: its own, that of the models it registers, and commands in its comments."""
    for key in ("name", "register"):
        text = re.sub(rf"^(\s*{key}: ){re.escape(old)}$", rf"\g<1>{new}", text, flags=re.MULTILINE)
    return re.sub(rf"^(#.*posttrain [a-z]+ ){re.escape(old)}(?=\s|$)", rf"\g<1>{RECIPE}", text, flags=re.MULTILINE)
