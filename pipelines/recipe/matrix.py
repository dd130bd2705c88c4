"""Matrices: the axes along which stages fan out."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pipelines.language.find import is_name
from pipelines.language.nodes import UNKNOWN, Node, mapping
from pipelines.language.problems import Mark, Problems, shown
from pipelines.recipe.grammar import MAX_SEED

Label = str | int | float | bool


@dataclass(frozen=True)
class Axis:
    """One dimension of a matrix: labels, and what `${matrix.<axis>}` gives for each."""

    name: str
    values: Mapping[Label, Node]


@dataclass(frozen=True)
class Trials:
    """The trials of a sweep: an axis around some stages of the file, along which the recipe's parameters change."""

    axis: Axis
    stages: Collection[str]
    """Stages of the file that differ between trials."""
    params: Mapping[Label, Mapping[str, Node]]
    """Trial -> all parameters of the recipe."""


BROKEN = Axis("", {"": Node(UNKNOWN, Mark(""))})
"""Placeholder for an axis whose problem is noted, so that its uses are not reported as well."""


def read_axes(node: Node, what: str, problems: Problems) -> tuple[Axis, ...]:
    """Return the axes of a matrix without references; invalid ones are noted and BROKEN."""
    if not isinstance(node.value, dict) or not node.value:
        if node.value is not UNKNOWN:
            expected = "expected 'axis: [values]' lines or none"
            problems.add(node.mark, f"{what}matrix: got {shown(node.plain())}, {expected}")
        return (BROKEN,)
    return tuple(_axis(name, values, what, problems) for name, values in node.value.items())


def keep_axes(
    node: Node, around: tuple[Axis, ...], what: str, problems: Problems
) -> tuple[tuple[Axis, ...], Node | None]:
    """Return the enclosing axes that a stage's matrix keeps, and its own part, None if there is none.

    `{arm: none}` leaves the axis `arm` out; an unknown axis is noted.
    """
    entries = node.value if isinstance(node.value, dict) else {}
    dropped = {axis: child for axis, child in entries.items() if is_none(child)}
    known = [axis.name for axis in around]
    for name, child in dropped.items():
        if name not in known and BROKEN not in around:
            problems.unknown(child.where, f"axis around {what.removesuffix(', ')}:", name, known)
    kept = tuple(axis for axis in around if axis.name not in dropped)
    if not dropped:
        return kept, node
    own = {name: child for name, child in entries.items() if name not in dropped}
    return kept, mapping(own, node.mark, node.key) if own else None


def is_none(node: Node) -> bool:
    """Return whether a matrix, or an axis, is left out."""
    return node.value is None or node.value == "none"


def _axis(name: str, node: Node, what: str, problems: Problems) -> Axis:
    field = f"{what}matrix.{name if is_name(name) else shown(name)}"
    if node.holds_unknown():
        return BROKEN
    if not is_name(name):
        problems.add(node.where, f"{field}: the axis is not a name (a-z first, then a-z, 0-9, '-', '_')")
        return BROKEN
    values = _values(node, field, problems)
    if values is None:
        return BROKEN
    slugs = [slug(label) for label in values]
    if len(values) < len(node.value) or len(set(slugs)) < len(slugs):
        problems.add(node.mark, f"{field}: two values give the same stage name: {shown(node.plain())}")
        return BROKEN
    if not all(slugs):
        problems.add(node.mark, f"{field}: a value has no letter or digit to be named by: {shown(node.plain())}")
        return BROKEN
    if name == "seed" and not all(is_count(value.value, MAX_SEED) for value in values.values()):
        problems.add(node.mark, f"{field}: got {shown(node.plain())}, expected whole numbers 0 to {MAX_SEED}")
        return BROKEN
    return Axis(name, values)


def _values(node: Node, field: str, problems: Problems) -> dict[Label, Node] | None:
    """Return label -> value of an axis: a list labels itself, a mapping names whole settings."""
    if not isinstance(node.value, dict | list) or not node.value:
        problems.add(node.mark, f"{field}: got {shown(node.plain())}, expected a list of values, at least one")
        return None
    if isinstance(node.value, dict):
        return dict(node.value)
    for item in node.value:
        if isinstance(item.value, dict | list) or item.value is None:
            expected = "expected text, a number or true/false (or 'label: value' lines instead of a list)"
            problems.add(item.mark, f"{field}: got {shown(item.plain())}, {expected}")
            return None
    return {item.value: item for item in node.value}


def products(axes: tuple[Axis, ...]) -> Iterator[dict[str, Label]]:
    """Yield the labels of every cell, the last axis changing fastest."""
    for labels in itertools.product(*(axis.values for axis in axes)):
        yield {axis.name: label for axis, label in zip(axes, labels, strict=True)}


def slug(label: Label) -> str:
    """Return a matrix value's form in stage names: 0.5 -> 0-5, -1 -> m1, True -> true."""
    text = str(label).lower()
    if isinstance(label, int | float) and not isinstance(label, bool) and label < 0:
        text = f"m{text[1:]}"
    return re.sub(r"[^a-z0-9]+", "-", text, flags=re.ASCII).strip("-")


def is_count(value: Any, most: int) -> bool:
    """Return whether a value is a whole number from 0 to `most`."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most
