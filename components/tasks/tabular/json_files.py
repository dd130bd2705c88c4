"""JSON: one object a line, or a whole file with a list of objects, alone or under a key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from components.contract.errors import InputError
from components.tasks.json_lines import iter_lines, parse_json, parse_line
from components.tasks.source import BadRow
from components.tasks.tabular.opened import NamedRow, opened, undamaged, whole_lines

LIST_KEYS = ("data", "rows", "train", "examples", "instances")
"""Keys that a file's list of rows may lie under, where several keys hold lists."""


def read_lines(path: Path) -> Iterator[NamedRow | BadRow]:
    """Yield the objects of a file with one a line."""
    with opened(path) as stream:
        yield from _objects(iter_lines(whole_lines(stream, path), path.name))


def read_document(path: Path) -> Iterator[NamedRow | BadRow]:
    """Yield the objects of a `.json` file: lines of JSON streamed, and one list read as a whole, counted from 1."""
    with opened(path) as stream:
        lines = iter_lines(whole_lines(stream, path), path.name)
        first = next(lines, None)
        if first is None:
            return
        if _is_object(first[1]) and (second := next(lines, None)) is not None:
            yield from _objects(chain((first, second), lines))
            return
    with opened(path) as stream, undamaged(path):
        document = b"\n".join(line for _, line in iter_lines(stream, path.name))
    try:
        rows = _listed(parse_json(document, "JSON"))
    except InputError as error:
        raise InputError(f"{path.name}: {error}") from error
    for number, row in enumerate(rows, start=1):
        where = f"{path.name}:item {number}"
        if isinstance(row, Mapping):
            yield where, row
        else:
            yield BadRow(where, f"expected a JSON object, found {type(row).__name__}")


def _objects(lines: Iterable[tuple[str, bytes]]) -> Iterator[NamedRow | BadRow]:
    for where, line in lines:
        try:
            yield where, parse_line(line)
        except InputError as error:
            yield BadRow(where, str(error))


def _is_object(line: bytes) -> bool:
    try:
        parse_line(line)
    except InputError:
        return False
    return True


def _listed(document: Any) -> list[Any]:
    """Return the rows of a document: a list, or the one list of objects that an object holds, or the object itself."""
    if isinstance(document, list):
        return document
    if not isinstance(document, dict):
        raise InputError(f"expected a list of objects, found {type(document).__name__}")
    lists = {key: value for key, value in document.items() if _holds_rows(value)}
    if not lists:
        return [document]
    key = next(iter(lists)) if len(lists) == 1 else next((key for key in LIST_KEYS if key in lists), None)
    others = [name for name, value in document.items() if name != key]
    if key is None or (others and key not in LIST_KEYS):
        return [document]  # an object whose values are lists of objects, such as messages, is a row
    return lists[key]


def _holds_rows(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)
