"""How the slots of two presets, or of two `rl` stages, differ."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from components.contract.operators import Bound, OperatorSpec
from components.rl.slots import SlotSpecs, step_slots

OPERATOR_DEFAULT = "default of the operator"


@dataclass(frozen=True)
class Side:
    """One method's side of a difference."""

    value: Any
    source: str | None
    """Source of the value; None for an operator's name."""


@dataclass(frozen=True)
class Difference:
    """A slot, or a constant of an operator, in which two methods differ."""

    place: str
    """`filters`, or `objective.ppo_clip.clip_high`."""
    a: Side | None
    """None where the method has no such operator."""
    b: Side | None


@dataclass(frozen=True)
class Cited:
    """The slots of a method, and the sources of its constants."""

    slots: SlotSpecs
    source: Callable[[str], str | None]
    """Source of a constant by its place, such as objective.ppo_clip.clip_high."""


def diff_slots(sides: tuple[Cited, Cited]) -> list[Difference]:
    """Return the exact differences: operators that only one has, and constants of shared operators."""
    found: list[Difference] = []
    for slot in step_slots():
        operators = [_bound(cited, slot) for cited in sides]
        a, b = ({bound.name: bound for bound in side} for side in operators)
        shared = [name for name in a if name in b]
        if list(a) != list(b):
            names = [Side([bound.name for bound in side], None) for side in operators]
            found.append(Difference(slot, *names))
        for name in [*shared, *(n for n in a if n not in b), *(n for n in b if n not in a)]:
            found += _constants(slot, name, (a.get(name), b.get(name)), sides)
    return found


def _bound(cited: Cited, slot: str) -> list[Bound]:
    given = vars(cited.slots)[slot]
    specs = (given,) if isinstance(given, OperatorSpec) else given
    return [spec.resolve(step_slots()[slot]) for spec in specs]


def _constants(
    slot: str, name: str, operators: tuple[Bound | None, Bound | None], sides: tuple[Cited, Cited]
) -> list[Difference]:
    keys = dict.fromkeys(key for bound in operators if bound for key in type(bound.config).model_fields)
    rows = []
    for key in keys:
        place = f"{slot}.{name}.{key}"
        a, b = (_side(bound, cited, place, key) for bound, cited in zip(operators, sides, strict=True))
        if (a and a.value) != (b and b.value):  # a constant that is null is none
            rows.append(Difference(place, a, b))
    return rows


def _side(bound: Bound | None, cited: Cited, place: str, key: str) -> Side | None:
    if bound is None:
        return None
    stated = key in bound.config.model_fields_set
    value = bound.config.model_dump(mode="json")[key]
    return Side(value, cited.source(place) if stated else OPERATOR_DEFAULT)
