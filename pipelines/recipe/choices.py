"""Choices of a recipe's parameters: the values that all places that use a parameter accept, where these are known.

A place is a value that consists of one reference, such as `method: "${params.method}"`. What it accepts comes from the
component's declaration: enumerated parameters, slots, which take operators, and names that a component lists itself.
`pool:` accepts the pools of infra/pools.yaml.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel

from components.contract.errors import InputError
from components.contract.registry import components, operators
from components.contract.slots import Slot
from pipelines.language.nodes import Node
from pipelines.recipe.layers import merge_layers
from pipelines.recipe.recipe import Recipe

REFERENCE = re.compile(r"\$\{\s*params\.([A-Za-z0-9_-]+)\s*\}")
Path = tuple[str, ...]


@dataclass(frozen=True)
class Choices:
    """Values of a parameter."""

    values: tuple[Any, ...]
    closed: bool = True
    """Whether there can be no other: a slot also takes operators of one's own."""
    pool: bool = False
    """Whether they are pools."""

    def __and__(self, other: Choices) -> Choices:
        values = tuple(value for value in self.values if value in other.values)
        return Choices(values, self.closed or other.closed, self.pool or other.pool)


def parameter_choices(recipe: Recipe) -> dict[str, Choices]:
    """Return parameter -> its possible values, for the parameters whose values can be listed.

    What the recipe lists itself comes first. There is no list where the parameter's default is not in it.
    """
    root = merge_layers(recipe.documents)
    found: dict[str, Choices] = {}
    for name, path in _places(root, ()):
        if accepted := _accepted(root, path, recipe):
            found[name] = found[name] & accepted if name in found else accepted
    for item in recipe.parameters:
        if item.words.choices:
            found[item.name] = Choices(tuple(item.words.choices))
    return {name: found[name] for name, value in recipe.params.items() if name in found and value in found[name].values}


def _places(node: Node, path: Path) -> Iterator[tuple[str, Path]]:
    """Yield every parameter that is a whole value, with where it is."""
    if isinstance(node.value, str):
        if match := REFERENCE.fullmatch(node.value.strip()):
            yield match[1], path
    elif isinstance(node.value, dict):
        for key, child in node.value.items():
            yield from _places(child, (*path, key))
    elif isinstance(node.value, list):
        for index, child in enumerate(node.value):
            yield from _places(child, (*path, str(index)))


def _accepted(root: Node, path: Path, recipe: Recipe) -> Choices | None:
    """Return what a place accepts; None if unknown."""
    if "with" not in path:
        return Choices(tuple(recipe.pools), pool=True) if path[-1] == "pool" else None
    at = path.index("with")
    uses = root.find((*path[:at], "uses"))
    if path[:at] == ("defaults",):
        name, fields = path[at + 1], path[at + 2 :]
    else:
        name, fields = str(uses.value if uses else ""), path[at + 1 :]
    try:
        component = components().get(name)
        if names := component.choices.get(".".join(fields)):
            return Choices(tuple(names()))
        return _listed(component.params, fields)
    except InputError:  # an unknown component or slot: the recipe's own checks report it
        return None


def _listed(schema: type[BaseModel], fields: Path) -> Choices | None:
    """Return the values of an enumerated parameter, or the operators of a slot; None for other parameters."""
    info = schema.model_fields.get(fields[0]) if fields else None
    if info is None:
        return None
    rest = fields[2:] if fields[1:2] and fields[1].isdigit() else fields[1:]
    optional = (getattr(option, "__metadata__", ()) for option in get_args(info.annotation))  # Annotated[...] | None
    slot = next((item for item in chain(info.metadata, *optional) if isinstance(item, Slot)), None)
    if slot is not None:
        return Choices(tuple(operators(slot).names()), closed=False) if rest in ((), ("name",)) else None
    if rest:
        nested = _schema(info.annotation)
        return _listed(nested, rest) if nested else None
    return _values(info.annotation)


def _values(annotation: Any) -> Choices | None:
    """Return the values of a Literal, which may be optional."""
    options = [annotation, *get_args(annotation)]
    found = [value for option in options if get_origin(option) is Literal for value in get_args(option)]
    return Choices((*found, *([None] if type(None) in get_args(annotation) else []))) if found else None


def _schema(annotation: Any) -> type[BaseModel] | None:
    """Return the schema below a parameter: its own, or that of the items of a list."""
    options = [annotation, *get_args(annotation)]
    return next((item for item in options if isinstance(item, type) and issubclass(item, BaseModel)), None)
