"""How two methods differ: presets by their slots; with a system among them, by the stages of both recipes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from components.contract.errors import InputError
from components.contract.job import FirstOf, InputRef, StageRef, reference_text
from components.rl.params import RLParams
from components.rl.presets import load_preset
from components.rl.slots import step_slots
from pipelines.methods.methods import Method, find_method
from pipelines.methods.slots_diff import Cited, Difference, Side, diff_slots
from pipelines.methods.systems import outline
from pipelines.recipe.hallmark import ARM
from pipelines.recipe.hallmark_words import METHOD
from pipelines.recipe.recipe import load_recipe
from pipelines.recipe.stage import Stage
from pipelines.recipe.system import SystemWords, names_of

COMPONENT_DEFAULT = "default of the component"


def diff_methods(slug_a: str, slug_b: str) -> list[Difference]:
    """Return what differs between two methods, with the source of each constant.

    Two presets are compared slot by slot. A system is a recipe, so its stages are compared with those of the other's
    recipe: their names, inputs and parameters; `rl` stages slot by slot.

    Raises UnknownName with near misses, and InputError for a method that cannot be read or has no recipe.
    """
    methods = find_method(slug_a), find_method(slug_b)
    if not any(method.system for method in methods):
        a, b = (load_preset(method.slug) for method in methods)
        return diff_slots((Cited(a.slots, a.sources.get), Cited(b.slots, b.sources.get)))
    first, second = (_Recipe.of(method) for method in methods)
    listed = [[f"{name} ({stage.component.name})" for name, stage in side.stages.items()] for side in (first, second)]
    found = [Difference("stages", Side(listed[0], None), Side(listed[1], None))] if listed[0] != listed[1] else []
    for name in first.stages:
        if name in second.stages:
            found += _diff_stages(name, first, second)
    return found


@dataclass(frozen=True)
class _Recipe:
    """The stages of a method's recipe in its own arm."""

    stages: Mapping[str, Stage]
    system: SystemWords | None

    @classmethod
    def of(cls, method: Method) -> _Recipe:
        if method.recipe is None:
            raise InputError(f"method {method.slug!r} has no recipe whose stages could be compared")
        recipe = load_recipe(method.recipe)
        return cls(outline(recipe), recipe.system)

    def inputs(self, name: str) -> dict[str, list[str]]:
        """Return port -> inputs, with the file's stage names."""
        called = {stage.name: own for own, stage in self.stages.items()}

        def renamed(ref: InputRef) -> InputRef:
            if isinstance(ref, FirstOf):
                return ref.model_copy(update={"first_of": [renamed(one) for one in ref.first_of]})
            return (
                ref.model_copy(update={"stage": called.get(ref.stage, ref.stage)}) if isinstance(ref, StageRef) else ref
            )

        return {port: [reference_text(renamed(ref)) for ref in refs] for port, refs in self.stages[name].inputs.items()}

    def settings(self, name: str) -> dict[str, Any]:
        """Return path -> value of a stage's parameters, defaults included, except the slots of `rl`."""
        config = self.stages[name].config
        slots = set(step_slots()) if isinstance(config, RLParams) else None
        return dict(_leaves(config.model_dump(mode="json", exclude=slots), ""))

    def source(self, name: str, place: str) -> str | None:
        """Return a stage parameter's source as declared by the system, or None."""
        stage = self.stages[name]
        if place.partition(".")[0] not in stage.params:
            return COMPONENT_DEFAULT
        written = ["stages." + ".stages.".join((stage.group or name).split(".")) + ".with"]
        written += [f"matrix.{ARM}.{METHOD}"] if ARM in stage.labels else []
        written += [f"defaults.with.{stage.component.name}"]
        cited = (self.system and self.system.source_of(f"{above}.{place}") for above in written)
        return next((source for source in cited if source), None)

    def cited(self, name: str) -> Cited | None:
        """Return the slots of an `rl` stage with their sources: the system's, else those of its preset."""
        config = self.stages[name].config
        if not isinstance(config, RLParams):
            return None
        preset = load_preset(config.method)

        def source(place: str) -> str | None:
            slot, _, key = place.split(".", 2)
            own = self.source(name, place) or self.source(name, f"{slot}.{key}")
            return preset.sources.get(place) if own in (None, COMPONENT_DEFAULT) else own

        return Cited(config.slots(), source)


def _diff_stages(name: str, first: _Recipe, second: _Recipe) -> Iterator[Difference]:
    """Yield the differences between stages with the same name in two recipes."""
    a, b = first.stages[name].component.name, second.stages[name].component.name
    if a != b:
        yield Difference(f"{name}.uses", Side(a, None), Side(b, None))
        return
    in_a, in_b = first.inputs(name), second.inputs(name)
    for port in dict.fromkeys([*in_a, *in_b]):
        if in_a.get(port) != in_b.get(port):
            sides = [Side(given[port], None) if port in given else None for given in (in_a, in_b)]
            yield Difference(f"{name}.in.{port}", *sides)
    with_a, with_b = first.settings(name), second.settings(name)
    for place in dict.fromkeys([*with_a, *with_b]):
        if (place in with_a) != (place in with_b) or with_a.get(place) != with_b.get(place):
            given = ((first, with_a), (second, with_b))
            sides = [Side(found[place], side.source(name, place)) if place in found else None for side, found in given]
            yield Difference(f"{name}.{place}", *sides)
    slots_a, slots_b = first.cited(name), second.cited(name)
    if slots_a and slots_b:
        for row in diff_slots((slots_a, slots_b)):
            yield Difference(f"{name}.{row.place}", row.a, row.b)


def _leaves(value: Any, place: str) -> Iterator[tuple[str, Any]]:
    """Yield path and value of every leaf; named list entries are addressed by name."""
    entries: Mapping[str, Any] = {}
    if isinstance(value, dict):
        entries = value
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        entries = names_of(value)
    if not entries:
        yield place, value
    for key, item in entries.items():
        yield from _leaves(item, f"{place}.{key}" if place else str(key))
