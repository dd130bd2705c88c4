"""Methods as data: which there are, whether they run, what their reproduction found, and how two of them differ."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.contract.errors import InputError
from components.contract.operators import Bound, OperatorSpec
from components.rl.presets import Preset, bind, load_preset, preset_files, preset_path
from components.rl.slots import SlotSpecs, step_slots
from pipelines.language.find import METHODS, recipe_files

RUNNABLE = "runnable"
RESULTS = "results"
"""Folder beside the presets that holds what their reproductions found, a JSON file for each method."""
OPERATOR_DEFAULT = "default of the operator"


@dataclass(frozen=True)
class Method:
    """One method as tables show it."""

    slug: str
    origin: str
    """Folder or package that brings it."""
    preset: Preset | None
    status: str
    """`runnable`, or why not."""
    recipe: str | None
    """Name of the recipe that reproduces it."""
    result: dict[str, Any] | None
    """What its last recorded reproduction found."""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        preset = self.preset
        return {
            "slug": self.slug,
            "catalogue": preset.catalogue if preset else None,
            "title": preset.title if preset else None,
            "paper": preset.paper if preset else None,
            "summary": preset.summary if preset else None,
            "slots": slots_json(preset.slots) if preset else {},
            "status": self.status,
            "recipe": self.recipe,
            "verdict": verdict_json(self.result) if self.result else None,
            "origin": self.origin,
        }


def list_methods() -> list[Method]:
    """Return all methods by slug; one that is broken says so and hides no other."""
    recipes = recipe_files()
    methods = []
    for slug, file in sorted(preset_files().items()):
        preset, status = None, RUNNABLE
        try:
            preset = load_preset(slug)
            bind(preset.slots)
        except InputError as error:
            status = f"cannot run: {error}"
        name = f"{METHODS}{slug}"
        methods.append(Method(slug, file.origin, preset, status, name if name in recipes else None, read_result(slug)))
    return methods


def result_path(slug: str) -> Path:
    """Return where the result of a method's reproduction is kept; raise UnknownName when there is no such method."""
    return preset_path(slug).parent / RESULTS / f"{slug}.json"


def read_result(slug: str) -> dict[str, Any] | None:
    """Return the recorded result of a method's reproduction, or None."""
    path = result_path(slug)
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def verdict_json(result: dict[str, Any]) -> dict[str, Any]:
    """Return the part of a result that says how a reproduction ended."""
    measures = {
        name: {key: entry[key] for key in ("effect", "direction", "margin", "verdict", "interval")}
        for name, entry in result["measures"].items()
    }
    kept = {key: result[key] for key in ("verdict", "claim", "seeds", "date", "run_seconds")}
    return {**kept, "measures": measures}


def slots_json(slots: SlotSpecs) -> dict[str, Any]:
    """Return slot -> operator or list of operators, as a recipe would write them."""
    return {
        key: [spec.model_dump(mode="json") for spec in given] if slot.many else given[0].model_dump(mode="json")
        for key, slot, given in slots.filled()
    }


@dataclass(frozen=True)
class Side:
    """One method's part in a difference."""

    value: Any
    source: str | None
    """Where the value comes from; None for an operator's name."""


@dataclass(frozen=True)
class Difference:
    """A slot, or a constant of an operator, in which two methods differ."""

    place: str
    """`filters`, or `objective.ppo_clip.clip_high`."""
    a: Side | None
    """None where the method has no such operator."""
    b: Side | None


def diff_methods(slug_a: str, slug_b: str) -> list[Difference]:
    """Return exactly what differs between two methods: operators that only one has, and constants of shared ones.

    Raises UnknownName with near misses.
    """
    presets = (load_preset(slug_a), load_preset(slug_b))
    found: list[Difference] = []
    for slot in step_slots():
        operators = [_bound(preset, slot) for preset in presets]
        a, b = ({bound.name: bound for bound in side} for side in operators)
        shared = [name for name in a if name in b]
        if list(a) != list(b):
            names = [Side([bound.name for bound in side], None) for side in operators]
            found.append(Difference(slot, *names))
        for name in [*shared, *(n for n in a if n not in b), *(n for n in b if n not in a)]:
            found += _constants(slot, name, (a.get(name), b.get(name)), presets)
    return found


def _bound(preset: Preset, slot: str) -> list[Bound]:
    given = vars(preset.slots)[slot]
    return [spec.resolve() for spec in ((given,) if isinstance(given, OperatorSpec) else given)]


def _constants(
    slot: str, name: str, sides: tuple[Bound | None, Bound | None], presets: tuple[Preset, Preset]
) -> list[Difference]:
    keys = dict.fromkeys(key for side in sides if side for key in type(side.config).model_fields)
    rows = []
    for key in keys:
        place = f"{slot}.{name}.{key}"
        a, b = (_side(bound, preset, place, key) for bound, preset in zip(sides, presets, strict=True))
        if (a and a.value) != (b and b.value) or (a is None) != (b is None):
            rows.append(Difference(place, a, b))
    return rows


def _side(bound: Bound | None, preset: Preset, place: str, key: str) -> Side | None:
    if bound is None:
        return None
    stated = key in bound.config.model_fields_set
    value = bound.config.model_dump(mode="json")[key]
    return Side(value, preset.sources.get(place) if stated else OPERATOR_DEFAULT)
