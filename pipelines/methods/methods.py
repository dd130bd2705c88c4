"""Methods as data, presets of `rl` and systems alike: which exist, whether they run, how they reproduce."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.contract.errors import InputError, UnknownName
from components.rl.presets import Preset, bind, load_preset, preset_files
from components.rl.slots import SlotSpecs
from pipelines.language.find import METHODS, recipe_files
from pipelines.methods.records import remarks_on
from pipelines.methods.results import read_result, read_tuned, verdict_json
from pipelines.methods.systems import System, find_system, list_systems, outline
from pipelines.recipe.layers import merge_layers
from pipelines.recipe.recipe import Recipe
from pipelines.recipe.system import constant_at

RUNNABLE = "runnable"
PRESET, SYSTEM = "preset", "system"


@dataclass(frozen=True)
class Method:
    """One method as shown in tables: a preset of `rl`, a system, or a preset within a longer recipe of its name."""

    slug: str
    origin: str
    """Folder or package that provides it."""
    preset: Preset | None
    system: System | None
    status: str
    """`runnable`, or why not."""
    recipe: str | None
    """Name of the recipe that reproduces it; a system's is the system itself."""
    result: dict[str, Any] | None
    """What its last recorded reproduction found."""
    tuned: dict[str, Any] | None = None
    """What was chosen for its arms, where they are tuned."""
    unreadable: str = ""
    """Why there is a record that cannot be read; it hides no other method."""

    @property
    def kind(self) -> str:
        """Return `system` for a recipe, else `preset`."""
        return SYSTEM if self.system else PRESET

    @property
    def facts(self) -> Facts:
        """Return the method's facts, from its recipe if it is a system; empty if its file cannot be read."""
        recipe = self.system.recipe if self.system else None
        words = recipe.system if recipe else self.preset if not self.system else None
        if words is None:
            return Facts()
        title = recipe.name if recipe else self.preset.title if self.preset else None
        return Facts(title, words.catalogue, words.paper, words.summary, tuple(words.missing))

    @property
    def constants(self) -> list[Constant]:
        """Return the constants that the method's file cites, with their values."""
        recipe = self.system.recipe if self.system else None
        if recipe is not None and recipe.system is not None:
            root = merge_layers(recipe.documents)
            cited = recipe.system.sources.items()
            return [Constant(place, constant_at(root, place).plain(), source) for place, source in cited]
        return list(preset_constants(self.preset)) if self.preset else []

    @property
    def stages(self) -> dict[str, str]:
        """Return stage -> component of a system, in their order; a preset has no stages of its own."""
        recipe = self.system.recipe if self.system else None
        return {name: stage.component.name for name, stage in outline(recipe).items()} if recipe else {}

    @property
    def remarks(self) -> list[str] | None:
        """Return why its recorded result no longer speaks of its recipe, empty if it does; None without a record."""
        if self.unreadable:
            return [self.unreadable]
        try:
            return None if self.result is None else remarks_on(self.slug, self.result, self.tuned)
        except InputError as error:
            return [str(error)]

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        facts = self.facts
        return {
            "slug": self.slug,
            "kind": self.kind,
            "catalogue": facts.catalogue,
            "title": facts.title,
            "paper": facts.paper,
            "summary": facts.summary,
            "slots": slots_json(self.preset.slots) if self.preset else {},
            "stages": self.stages,
            "missing": list(facts.missing),
            "status": self.status,
            "recipe": self.recipe,
            "verdict": verdict_json(self.result) if self.result else None,
            "origin": self.origin,
        }


@dataclass(frozen=True)
class Facts:
    """Facts that a method's file declares."""

    title: str | None = None
    catalogue: int | None = None
    paper: str | None = None
    summary: str | None = None
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class Constant:
    """A constant of a method."""

    place: str
    """`objective.ppo_clip.clip_high` in a preset, `stages.rl.with.group_size` in a system."""
    value: Any
    source: str | None
    """Its source."""


def preset_constants(preset: Preset) -> Iterator[Constant]:
    """Yield the constants of a preset's operators."""
    for slot, _, given in preset.slots.filled():
        for spec in given:
            for key, value in spec.settings.items():
                place = f"{slot}.{spec.name}.{key}"
                yield Constant(place, value, preset.sources.get(place))


def list_methods() -> list[Method]:
    """Return all methods by slug; a broken one carries its error and does not hide others."""
    recipes, systems = recipe_files(), list_systems()
    return [_method(slug, systems.get(slug), recipes) for slug in sorted({*preset_files(), *systems})]


def find_method(slug: str) -> Method:
    """Return the method of that name; raise UnknownName with near misses."""
    system = find_system(slug)
    if system is None and slug not in preset_files():
        raise UnknownName("method", slug, sorted({*preset_files(), *list_systems()}))
    return _method(slug, system, recipe_files())


def method_file(slug: str, recipe: Recipe) -> Path:
    """Return the file next to which results of a method's recipe are kept: the preset's, else the system's.

    Raises UnknownName for a recipe that is neither.
    """
    file = preset_files().get(slug)
    if file is None and recipe.system is None:
        raise UnknownName("method", slug, sorted({*preset_files(), *list_systems()}))
    return file.path if file else recipe.path


def _method(slug: str, system: System | None, recipes: Mapping[str, Path]) -> Method:
    name, file = f"{METHODS}{slug}", preset_files().get(slug)
    preset, status = None, (system and system.error and f"cannot run: {system.error}") or RUNNABLE
    if file is not None:
        try:
            preset = load_preset(slug)
            bind(preset.slots)
        except InputError as error:
            status = f"cannot run: {error}"
    brought = file or system
    assert brought is not None  # a slug names a preset's file or a system's
    result, tuned, unreadable = None, None, ""
    try:
        result, tuned = read_result(brought.path, slug), read_tuned(brought.path, slug)
    except InputError as error:
        unreadable = str(error)
    recipe = name if name in recipes else None
    return Method(slug, brought.origin, preset, system, status, recipe, result, tuned, unreadable)


def slots_json(slots: SlotSpecs) -> dict[str, Any]:
    """Return slot -> operator or list of operators, as a recipe would write them."""
    return {
        key: [spec.model_dump(mode="json") for spec in given] if slot.many else given[0].model_dump(mode="json")
        for key, slot, given in slots.filled()
    }
