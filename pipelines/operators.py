"""Operators named in parameters: their names and settings are checked before anything runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from components.contract.errors import InputError, UnknownName
from components.contract.operators import OperatorSpec, config_of
from components.contract.registry import Registry, operators
from pipelines.nodes import Node
from pipelines.problems import Problems
from pipelines.wording import add_schema_errors, settings_of


def check_operators(config: BaseModel, node: Node, what: str, problems: Problems) -> bool:
    """Note unknown names and wrong settings of all operators in validated parameters; return whether there are none.

    A field is known to hold an operator of slot "source" by its name: source, sources or train_source.
    """
    checked = [
        _check(spec, registry, place, f"{what}{'.'.join(map(str, path))}.", problems)
        for path, spec, registry, place in _named(config, node)
    ]
    return all(checked)


def anchor_paths(config: BaseModel, node: Node, params: dict[str, Any], folders: Mapping[str, Path]) -> bool:
    """Make relative paths in the settings of operators absolute in `params`; return whether there was one.

    `params` is `node` without places. Such a path is relative to the folder of the file that it is written in, in
    `folders` by the file's label; what is set from outside is relative to the working folder.
    """
    found = False
    for path, spec, registry, place in _named(config, node):
        schema = config_of(registry.get(spec.name), spec.name)
        for key in getattr(schema, "paths", ()):
            written = settings_of(place).child(key)
            if written is None or not _is_relative(written.value):
                continue
            operator: Any = params
            for step in path:
                operator = operator[step]
            operator[key] = str(folders.get(written.file, Path()).absolute() / written.value)
            found = True
    return found


def _is_relative(path: Any) -> bool:
    return isinstance(path, str) and "://" not in path and not path.startswith("~") and not Path(path).is_absolute()


def configs_with_paths(config: BaseModel) -> Iterator[Any]:
    """Yield the validated settings of those operators whose settings name files."""
    for _, spec, registry in _operators(config):
        schema = config_of(registry.get(spec.name), spec.name)
        if getattr(schema, "paths", ()):
            yield schema.model_validate(spec.settings)


def _named(config: BaseModel, node: Node) -> Iterator[tuple[tuple[str | int, ...], OperatorSpec, Registry, Node]]:
    """Yield the operators that `node` names, with their slots' registries and their places."""
    for path, spec, registry in _operators(config):
        if (place := node.find(path)) is not None:  # None: a default of the schema
            yield path, spec, registry, place


def _operators(config: BaseModel) -> Iterator[tuple[tuple[str | int, ...], OperatorSpec, Registry]]:
    for path, spec in _specs(config, ()):
        registry = _slot(str(next(step for step in reversed(path) if isinstance(step, str))))
        if registry is not None:  # None: a slot that only its component knows
            yield path, spec, registry


def _check(spec: OperatorSpec, registry: Registry, place: Node, what: str, problems: Problems) -> bool:
    name = place.child("name") or place
    try:
        schema = config_of(registry.get(spec.name), f"{registry.kind} {spec.name!r}")
    except UnknownName as error:
        problems.unknown(name.mark, registry.kind, spec.name, error.known)
        return False
    except InputError as error:
        problems.add(name.mark, str(error))
        return False
    settings = settings_of(place)
    try:
        schema.model_validate(settings.plain())
    except ValidationError as error:
        add_schema_errors(problems, error, settings, what=what, schema=schema)
        return False
    return True


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
