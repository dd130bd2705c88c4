"""Operators named in parameters: their names and settings are checked before anything runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from components.contract.errors import InputError, UnknownName
from components.contract.names import Registry
from components.contract.operators import Keys, OperatorSpec, config_of, named_operators
from components.contract.registry import operators
from pipelines.language.nodes import Node
from pipelines.language.problems import Problems
from pipelines.language.wording import add_schema_errors, settings_of


@dataclass(frozen=True)
class Written:
    """An operator as written in a recipe, with valid settings."""

    path: tuple[str | int, ...]
    """Its path in the stage's parameters."""
    place: Node
    schema: type[BaseModel]


def check_operators(config: BaseModel, node: Node, what: str, problems: Problems) -> list[Written]:
    """Note unknown names and invalid settings of all operators in validated parameters, and of those that they use.

    Returns the valid operators.
    """
    right = []
    for path, spec, registry in _operators(config):
        if (place := node.find(path)) is None:
            continue  # a default of the schema
        inside = f"{what}{'.'.join(map(str, path))}."
        schema = _check(spec, registry, place, inside, problems)
        if schema is not None:
            right.append(Written(path, place, schema))
            used = check_operators(schema.model_validate(spec.settings), place, inside, problems)
            right += [replace(one, path=(*path, *one.path)) for one in used]
    return right


def anchor_paths(written: Iterable[Written], params: dict[str, Any], folders: Mapping[str, Path]) -> bool:
    """Make relative paths in the settings of operators absolute in `params`; return whether there was one.

    Such a path is relative to the folder of the file that it is written in, in
    `folders` by the file's label; what is set from outside is relative to the working folder.
    """
    found = False
    for one in written:
        for key in getattr(one.schema, "paths", ()):
            given = one.place.child(key)
            if given is None or not _is_relative(given.value):
                continue
            operator: Any = params
            for step in one.path:
                operator = operator[step]
            operator[key] = str(folders.get(given.file, Path()).absolute() / given.value)
            found = True
    return found


def _is_relative(path: Any) -> bool:
    return isinstance(path, str) and "://" not in path and not path.startswith("~") and not Path(path).is_absolute()


def configs_with_paths(config: BaseModel) -> Iterator[tuple[Keys, Any]]:
    """Yield path and validated settings of those operators whose settings name files."""
    for path, spec, registry in _operators(config):
        schema = config_of(registry.get(spec.name), spec.name)
        if getattr(schema, "paths", ()):
            yield path, schema.model_validate(spec.settings)


def _operators(config: BaseModel) -> Iterator[tuple[tuple[str | int, ...], OperatorSpec, Registry]]:
    for path, spec in named_operators(config):
        if spec.slot is not None:  # None: a slot that only its component knows
            yield path, spec, operators(spec.slot)


def _check(
    spec: OperatorSpec, registry: Registry, place: Node, what: str, problems: Problems
) -> type[BaseModel] | None:
    name = place.child("name") or place
    try:
        schema = config_of(registry.get(spec.name), f"{registry.kind} {spec.name!r}")
    except UnknownName as error:
        problems.unknown(name.mark, registry.kind, spec.name, error.known, error.hint)
        return None
    except InputError as error:
        problems.add(name.mark, str(error))
        return None
    settings = settings_of(place)
    try:
        schema.model_validate(settings.plain())
    except ValidationError as error:
        add_schema_errors(problems, error, settings, what=what, schema=schema)
        return None
    return schema
