"""Operators named in parameters: their names and settings are checked before anything runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from components.contract.errors import InputError, UnknownName
from components.contract.operators import OperatorSpec, config_of
from components.contract.registry import Registry, operators
from pipelines.nodes import Node
from pipelines.problems import Problems
from pipelines.wording import add_schema_errors, settings_of


def check_operators(config: BaseModel, node: Node, what: str, problems: Problems) -> None:
    """Note unknown names and wrong settings of all operators in validated parameters.

    A field is known to hold an operator of slot "source" by its name: source, sources or train_source.
    """
    for path, spec in _specs(config, ()):
        registry = _slot(str(next(step for step in reversed(path) if isinstance(step, str))))
        place = node.find(path)
        if registry is None or place is None:
            continue  # a field whose slot only its component knows, or a default of the schema
        _check(spec, registry, place, f"{what}{'.'.join(map(str, path))}.", problems)


def _check(spec: OperatorSpec, registry: Registry, place: Node, what: str, problems: Problems) -> None:
    name = place.child("name") or place
    try:
        schema = config_of(registry.get(spec.name), f"{registry.kind} {spec.name!r}")
    except UnknownName as error:
        problems.unknown(name.mark, registry.kind, spec.name, error.known)
        return
    except InputError as error:
        problems.add(name.mark, str(error))
        return
    settings = settings_of(place)
    try:
        schema.model_validate(settings.plain())
    except ValidationError as error:
        add_schema_errors(problems, error, settings, what=what, schema=schema)


def _specs(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], OperatorSpec]]:
    if isinstance(value, OperatorSpec):
        yield path, value
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from _specs(vars(value)[name], (*path, name))
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from _specs(item, (*path, str(name)))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _specs(item, (*path, index))


def _slot(field: str) -> Registry | None:
    word = field.rpartition("_")[2]
    for slot in (field, word, field.removesuffix("s"), word.removesuffix("s")):
        try:
            return operators(slot)
        except UnknownName:
            continue
    return None
