"""Errors of pydantic schemas, at the exact key's line and in readable words."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from components.contract.errors import UnknownName, nearest
from components.contract.operators import OperatorMisfit, OperatorRefused
from pipelines.language.nodes import Node, mapping
from pipelines.language.problems import Problems, meant, shown

_Path = tuple[str | int, ...]


class _Found(NamedTuple):
    path: _Path
    entry: Any


_EXPECTED = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "string": "text",
    "list": "a list",
    "tuple": "a list",
    "set": "a list",
    "frozen_set": "a list",
    "dict": "a mapping ('key: value' lines)",
    "mapping": "a mapping ('key: value' lines)",
    "model": "a mapping ('key: value' lines)",
    "model_attributes": "a mapping ('key: value' lines)",
    "none": "nothing (null)",
    "finite_number": "a finite number",
    "path": "a path",
    "url": "a URL",
}
_BOUNDS = {
    "greater_than": ("gt", "a number greater than {}"),
    "greater_than_equal": ("ge", "a number of at least {}"),
    "less_than": ("lt", "a number less than {}"),
    "less_than_equal": ("le", "a number of at most {}"),
    "multiple_of": ("multiple_of", "a multiple of {}"),
    "string_too_short": ("min_length", "at least {} characters"),
    "string_too_long": ("max_length", "at most {} characters"),
    "string_pattern_mismatch": ("pattern", "text of the form {}"),
}


def add_schema_errors(
    problems: Problems,
    error: ValidationError,
    node: Node,
    *,
    what: str,
    schema: type[BaseModel],
    absent: Collection[str] = (),
) -> None:
    """Note every error of `schema` that was applied to `node.plain()`; `what` begins the message ("stage 'rl', with.").

    `absent` are keys that were left out because a reference in them failed, which was noted: neither their absence nor
    what follows from it is. A missing key whose misspelling is reported as unknown is not reported again.
    """
    groups: dict[_Path, list[_Found]] = {}
    misspelt: set[_Path] = set()
    for entry in error.errors(include_url=False):
        if absent and (not entry["loc"] or entry["loc"][0] in absent):
            continue
        path = _path_in(node, entry["loc"])
        groups.setdefault(_group_of(entry, path), []).append(_Found(path, entry))
        if entry["type"] == "extra_forbidden":
            misspelt.add((*path[:-1], nearest(str(path[-1])[:99], fields_at(schema, path[:-1])) or ""))
    for group, found in groups.items():
        if not _follows(group, found, groups, misspelt):
            # the union member that validated furthest is the intended one
            depth = max(len(item.path) for item in found)
            _add(problems, node, [item for item in found if len(item.path) == depth], what, schema)


def _follows(group: _Path, found: list[_Found], groups: Collection[_Path], misspelt: Collection[_Path]) -> bool:
    """Return whether an error only follows from another one."""
    code = found[0].entry["type"]
    if code == "missing":
        return group in misspelt
    # pydantic does not count invalid items, so their list also seems too short
    return code == "too_short" and any(len(other) > len(group) and other[: len(group)] == group for other in groups)


def fields_at(schema: type[BaseModel], path: _Path) -> list[str]:
    """Return the keys that `schema` allows in the mapping at `path`, of all members of a union."""
    models = [schema]
    for step in path:
        if isinstance(step, str):
            fields = [_fields(model)[step] for model in models if step in _fields(model)]
            models = [model for info in fields for model in _models_in(info.annotation)]
    return list(dict.fromkeys(name for model in models for name in _fields(model)))


def _fields(model: type[BaseModel]) -> dict[str, FieldInfo]:
    return {info.alias or name: info for name, info in model.model_fields.items()}


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models_in(part)]


def _add(problems: Problems, node: Node, found: list[_Found], what: str, schema: type[BaseModel]) -> None:
    path, entry = found[0]
    field = what + ".".join(map(str, path)) if path else what.rstrip(", .")
    place = node.at(path)
    if entry["type"] == "extra_forbidden":
        inside = what + ".".join(map(str, path[:-1])) if path[:-1] else what.rstrip(", .")
        keys = fields_at(schema, path[:-1])
        problems.add(
            place.where, f"{inside}: unknown key {shown(path[-1])}{meant(str(path[-1]), keys) if keys else ''}"
        )
    elif entry["type"] == "missing" and isinstance(entry["loc"][-1], str):
        problems.add(place.where, f"{field}: {entry['loc'][-1]!r} is missing")
    elif not (entry["type"] == "value_error" and _add_operator(problems, place, entry["ctx"]["error"], field)):
        expected = " or ".join(dict.fromkeys(_expected(item.entry) for item in found)).replace("or expected ", "or ")
        origin = f" (from {place.origin})" if place.origin else ""
        plain = place.plain()
        got = "" if isinstance(plain, dict) else f"got {shown(plain)}{origin}, "
        problems.add(place.mark, f"{field}: {got}{expected}")


def _add_operator(problems: Problems, place: Node, error: Exception, field: str) -> bool:
    """Note a component's error about an operator at the operator's line; return whether it was found."""
    if isinstance(error, UnknownName):
        for _, name in operators_in(place):
            if name.value == error.name:
                problems.unknown(name.mark, error.kind, error.name, error.known, error.hint)
                return True
    if isinstance(error, OperatorMisfit):
        for path, name in operators_in(place):
            if name.value == error.name:
                problems.add(name.mark, f"{'.'.join(map(str, (field, *path)))}: {error}")
                return True
    if isinstance(error, OperatorRefused):
        for path, name in operators_in(place):
            if name.value == error.name:
                settings = settings_of(place.at(path))
                try:
                    error.config_type.model_validate(settings.plain())
                except ValidationError as refused:
                    what = ".".join(map(str, (field, *path))) + "."
                    add_schema_errors(problems, refused, settings, what=what, schema=error.config_type)
                    return True
    return False


def operators_in(node: Node, path: _Path = ()) -> Iterator[tuple[_Path, Node]]:
    """Yield path and name node of everything below that may be an operator: a text, or a mapping with a name."""
    if isinstance(node.value, str):
        yield path, node
    elif isinstance(node.value, dict):
        name = node.value.get("name")
        if name is not None and isinstance(name.value, str):
            yield path, name
        for key, child in node.value.items():
            yield from operators_in(child, (*path, key))
    elif isinstance(node.value, list):
        for index, child in enumerate(node.value):
            yield from operators_in(child, (*path, index))


def settings_of(operator: Node) -> Node:
    """Return an operator's settings as written: everything but its name."""
    entries = operator.value if isinstance(operator.value, dict) else {}
    return mapping({key: child for key, child in entries.items() if key != "name"}, operator.mark, operator.key)


def _expected(entry: Any) -> str:
    code, context = entry["type"], entry.get("ctx", {})
    if code in _BOUNDS:
        name, text = _BOUNDS[code]
        return f"expected {text.format(context[name])}"
    if code == "int_parsing_size":
        return "expected a smaller number"
    if code == "int_from_float":
        return "expected a whole number"
    if code in ("literal_error", "enum"):
        choices = [part.strip(" '") for part in str(context["expected"]).replace(" or ", ",").split(",")]
        near = nearest(str(entry["input"])[:99], choices)
        listed = f"one of {', '.join(choices)}" if len(choices) > 1 else repr(choices[0])
        return f"expected {listed}" + (f"; did you mean {near!r}?" if near else "")
    if code == "missing":
        return f"expected at least {entry['loc'][-1] + 1} items"
    if code in ("too_short", "too_long"):
        bound = "at least" if code == "too_short" else "at most"
        count = context.get("min_length", context.get("max_length"))
        return f"expected {bound} {count} item{'' if count == 1 else 's'}"
    if code in ("value_error", "assertion_error"):
        return str(context["error"])
    base = code.removesuffix("_type").removesuffix("_parsing")
    return f"expected {_EXPECTED[base]}" if base in _EXPECTED else str(entry["msg"])[:1].lower() + entry["msg"][1:]


def _path_in(node: Node, loc: _Path) -> _Path:
    """Return the part of a location that exists in the document: names of union members and validators drop out."""
    path: list[str | int] = []
    for step in loc:
        here = node.at(tuple(path)).value
        if (isinstance(here, dict) and step in here) or (
            isinstance(here, list) and isinstance(step, int) and step < len(here)
        ):
            path.append(step)
    return tuple(path)


def _group_of(entry: Any, path: _Path) -> _Path:
    """Return what groups the errors of one value: its path up to where a union's members differ."""
    if entry["type"] == "missing":
        return (*path, entry["loc"][-1])
    same = 0
    while same < min(len(path), len(entry["loc"])) and path[same] == entry["loc"][same]:
        same += 1
    return path[:same]
