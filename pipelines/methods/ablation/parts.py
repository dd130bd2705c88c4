"""Parts of a method: the slots and settings that set its arm apart from the baseline's, each of which can be reset."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from components.contract.errors import InputError
from components.contract.operators import OperatorSpec
from components.rl.params import RLParams
from components.rl.presets import bind
from components.rl.slots import SlotSpecs, step_slots
from pipelines.language.problems import Problems
from pipelines.recipe.hallmark import ARM
from pipelines.recipe.hallmark_words import BASELINE, METHOD
from pipelines.recipe.layers import apply_overrides, merge_layers, override_text
from pipelines.recipe.recipe import Recipe

MISSING = object()
LENGTHS = {"steps", "token_budget"}
"""Keys of an arm that say how long it runs."""


@dataclass(frozen=True)
class Part:
    """What an ablation resets together."""

    names: tuple[str, ...]
    """Slots, settings of a slot's operator (objective.clip_high), or keys of the arm."""
    settings: Mapping[str, Any]
    """What the method's arm has instead; `MISSING` for a key that it then lacks."""
    own: Mapping[str, Any] = field(default_factory=dict)
    """What the method itself has there."""

    @property
    def arm(self) -> str:
        """Return the name of the arm without this part."""
        return f"without_{'_and_'.join(self.names)}".replace(".", "_")


@dataclass(frozen=True)
class Parts:
    """The parts of a method, and what cannot be reset."""

    arm: Mapping[str, Any]
    """The method's arm, as the recipe writes it."""
    found: tuple[Part, ...]
    refused: Mapping[str, str]
    """Slot -> why no arm can do without it."""

    def overrides(self) -> list[str]:
        """Return the overrides that add an arm for each part."""
        texts = []
        for part in self.found:
            arm = {**self.arm, **part.settings}
            kept = {key: value for key, value in arm.items() if value is not MISSING}
            texts.append(override_text(f"matrix.{ARM}.{part.arm}", kept))
        return texts


def parts_of(recipe: Recipe) -> Parts:
    """Return what sets the method's arm apart from the baseline's.

    A slot is reset to the baseline's operators, and where both arms have the same operator each of its settings that
    differ. A slot that no step could run with alone, such as a divergence without its reference, is reset together with
    a second one. `steps` and `token_budget` are no parts where the arms spend alike: they are what makes them. Raises
    InputError for arms that do not differ, or in no such way.
    """
    method, baseline = _arms(recipe)
    slots, other = _slots(recipe, METHOD), _slots(recipe, BASELINE)
    found, refused = _slot_parts(slots, other) if slots and other else ([], {})
    words = recipe.hallmark.words if recipe.hallmark else None
    tuned = words.tuning if words else None
    own = {"method", *step_slots()} if slots else set()
    own |= LENGTHS if words and words.budget is not None else set()
    for key in dict.fromkeys([*method, *baseline]):
        is_tuned = tuned is not None and tuned.of.partition(".")[0] == key
        if key not in own and not is_tuned and method.get(key, MISSING) != baseline.get(key, MISSING):
            found.append(Part((key,), {key: baseline.get(key, MISSING)}, {key: method.get(key, MISSING)}))
    if not found:
        raise InputError(f"recipe {recipe.name!r}: its method and its baseline differ in nothing that can be reset")
    return Parts(method, tuple(found), refused)


def _arms(recipe: Recipe) -> tuple[dict[str, Any], dict[str, Any]]:
    root = apply_overrides(merge_layers(recipe.documents), recipe.overrides, Problems())
    found = []
    for arm in (METHOD, BASELINE):
        node = root.find(("matrix", ARM, arm))
        if node is None or not isinstance(node.value, dict):
            raise InputError(f"recipe {recipe.name!r}: expected settings in matrix.{ARM}.{arm}, which could be reset")
        found.append(node.plain())
    return found[0], found[1]


def _slots(recipe: Recipe, arm: str) -> SlotSpecs | None:
    """Return the slots of an arm's first `rl` stage, None if it has none."""
    configs = (stage.config for stage in recipe.stages if stage.labels.get(ARM) == arm)
    return next((config.slots() for config in configs if isinstance(config, RLParams)), None)


def _slot_parts(method: SlotSpecs, baseline: SlotSpecs) -> tuple[list[Part], dict[str, str]]:
    """Return the slots that can be reset, alone or with a second one, and those that cannot."""
    written = {key: (_written(key, method), _written(key, baseline)) for key in step_slots()}
    differ = [key for key, (own, other) in written.items() if own != other]
    errors = {key: error for key in differ if (error := _error(method, baseline, (key,)))}
    groups: list[tuple[str, ...]] = [(key,) for key in differ if key not in errors]
    refused = {}
    for key, error in errors.items():
        pairs = ((key, other) for other in differ if other != key)
        pair = next((pair for pair in pairs if _error(method, baseline, pair) is None), None)
        if pair is None:
            refused[key] = error
        elif not any(set(pair) == set(group) for group in groups):
            groups = [group for group in groups if group != pair[1:]] + [pair]
    parts: list[Part] = []
    for group in groups:
        own, other = ({key: written[key][side] for key in group} for side in (0, 1))
        alone = _setting_parts(group[0], own[group[0]], other[group[0]]) if len(group) == 1 else []
        parts += alone or [Part(group, other, own)]
    return parts, refused


def _setting_parts(key: str, own: Any, other: Any) -> list[Part]:
    """Return the settings in which an operator differs from the baseline's same one, if each can be reset alone."""
    if not isinstance(own, dict) or not isinstance(other, dict) or own["name"] != other["name"]:
        return []
    found = [Part((f"{key}.{name}",), {key: {**own, name: other[name]}}, {key: own}) for name in own]
    found = [part for part in found if part.settings[key] != own]
    try:
        for part in found:
            OperatorSpec.model_validate(part.settings[key]).resolve(step_slots()[key])
    except InputError:
        return []
    return found


def _error(method: SlotSpecs, baseline: SlotSpecs, keys: tuple[str, ...]) -> str | None:
    """Return why no step can run with these slots of the baseline, None if one can."""
    try:
        bind(replace(method, **{key: vars(baseline)[key] for key in keys}))
    except InputError as error:
        return next(iter(str(error).splitlines()), "it cannot run")
    return None


def _written(key: str, slots: SlotSpecs) -> Any:
    """Return a slot's operators as a recipe writes them, with all of their settings: none may come from a preset."""
    given = vars(slots)[key]
    texts = list(_operators(key, (given,) if isinstance(given, OperatorSpec) else given))
    return texts[0] if isinstance(given, OperatorSpec) else texts


def _operators(key: str, specs: tuple[OperatorSpec, ...]) -> Iterator[dict[str, Any]]:
    for spec in specs:
        yield {"name": spec.name, **spec.resolve(step_slots()[key]).config.model_dump(mode="json")}
