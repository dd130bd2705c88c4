"""Methods as presets: a published system is one operator per slot with its constants, each with its source.

Does not import torch: checking and fingerprinting recipes import it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field, ValidationError, field_validator

from components.contract.errors import InputError, UnknownName, schema_problems
from components.contract.operator_files.placing import placed
from components.contract.operators import OperatorSpec
from components.contract.params import Params
from components.contract.registry import Folder, registered_folders
from components.rl.slots import Slots, SlotSpecs, step_slots

FOLDER = Path(__file__).parent / "methods"
GROUP = "posttrain.methods"
"""Entry point group for methods: each entry names a Python package whose folder holds <slug>.yaml files."""


@dataclass(frozen=True)
class MethodFile:
    """Where a method is declared, and by whom."""

    path: Path
    origin: str


class Preset(Params):
    """One file of components/rl/methods."""

    slug: str
    """Name in recipes."""
    title: str
    """Name in tables."""
    catalogue: int | None = None
    """Number in the methods catalogue; none for baselines, which are not in it."""
    paper: str
    """Authors, year, title, address."""
    summary: str
    """One line: what distinguishes it."""
    slots: SlotSpecs
    """The method."""
    sources: dict[str, str]
    """`slot.operator.key` of every constant in `slots` -> where it comes from."""
    paper_scale: dict[str, Any] = Field(default_factory=dict)
    """The paper's values of settings that belong to a stage here: group size, batch, learning rate."""
    missing: tuple[str, ...] = ()
    """Parts of the paper that the preset leaves out."""

    @field_validator("slots", mode="before")
    @classmethod
    def _with_defaults(cls, value: Any) -> Any:
        defaults = {key: () if slot.many else slot.default for key, slot in step_slots().items()}
        return {**{k: v for k, v in defaults.items() if v is not None}, **value} if isinstance(value, dict) else value


@cache
def preset_files() -> dict[str, MethodFile]:
    """Return slug -> file of all methods, from this folder and from installed packages.

    Raises InputError if two files have the same slug.
    """
    found: dict[str, MethodFile] = {}
    for folder in (Folder(FOLDER, "components/rl/methods"), *registered_folders(GROUP)):
        for path in sorted(folder.folder.glob("*.yaml")):
            other = found.setdefault(path.stem, MethodFile(path, folder.origin))
            if other.path != path:
                raise InputError(f"rl method {path.stem!r} is there twice: by {other.origin}, and by {folder.origin}")
    return found


def preset_names() -> list[str]:
    """Return the slugs of all methods, sorted."""
    return sorted(preset_files())


def preset_path(slug: str) -> Path:
    """Return the file of a method; raise UnknownName with near misses."""
    if slug not in (known := preset_files()):
        raise UnknownName("rl method", slug, known)
    return known[slug].path


@cache
def load_preset(slug: str) -> Preset:
    """Return the method of that name; raise UnknownName with near misses, or InputError naming a malformed file."""
    path = preset_path(slug)
    try:
        preset = Preset.model_validate(placed(yaml.safe_load(path.read_text(encoding="utf-8")), path.parent))
    except ValidationError as error:
        problems = schema_problems(error)
        raise InputError(f"rl method {slug!r} ({path}): {problems}") from error
    except yaml.YAMLError as error:
        raise InputError(f"rl method {slug!r} ({path}): {' '.join(str(error).split())}") from error
    if preset.slug != slug:
        raise InputError(f"rl method {slug!r} ({path}): its slug is {preset.slug!r}; it must be the file's name")
    return preset


def override(preset: SlotSpecs, overrides: Mapping[str, OperatorSpec | Sequence[OperatorSpec] | None]) -> SlotSpecs:
    """Return the slots with a recipe's overrides applied.

    An operator that the preset already has in that slot keeps the preset's constants unless the recipe sets them; any
    other takes its own defaults. A list replaces the whole list.
    """
    changes: dict[str, Any] = {}
    for key, given in overrides.items():
        if given is None:
            continue
        present = vars(preset)[key]
        if isinstance(given, OperatorSpec):
            changes[key] = _merge(given, (present,))
        else:
            changes[key] = tuple(_merge(spec, present) for spec in given)
    return replace(preset, **changes)


def _merge(given: OperatorSpec, present: Sequence[OperatorSpec]) -> OperatorSpec:
    base = next((spec.settings for spec in present if spec.name == given.name), {})
    return OperatorSpec.model_validate({**base, **given.settings, "name": given.name})


def bind(specs: SlotSpecs) -> Slots:
    """Look up every operator and validate its config.

    Raises UnknownName or InputError naming slot and operator, also for operators that do not fit together.
    """
    bound: dict[str, Any] = {}
    for key, slot, given in specs.filled():
        found = tuple(spec.resolve(slot) for spec in given)
        bound[key] = found if slot.many else found[0]
    return Slots(**bound)


def check_specs(key: str, given: OperatorSpec | Sequence[OperatorSpec]) -> None:
    """Raise UnknownName or InputError unless every operator exists in the slot and accepts its config."""
    for spec in (given,) if isinstance(given, OperatorSpec) else given:
        spec.resolve(step_slots()[key])
