"""Values of foreign rows: columns that hold messages, also as JSON text, and further columns that a row can hold."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import isfinite
from typing import Any

from components.contract.errors import InputError


def at(row: Mapping[str, Any], column: str) -> Any:
    """Return the value of a column; a dot reaches into objects. None where there is none."""
    if column in row:
        return row[column]
    value: Any = row
    for key in column.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value


def is_chat(value: Any) -> bool:
    """Return whether a value is a list of messages, or JSON text with one, as CSV holds it."""
    entries = messages_of(value)
    return isinstance(entries, list) and bool(entries) and all(_is_message(entry) for entry in entries)


def messages_of(value: Any) -> Any:
    """Return a list of messages out of JSON text or a single message; anything else as it is."""
    if isinstance(value, str) and value.lstrip()[:1] == "[":
        try:
            parsed = json.loads(value)
        except (ValueError, RecursionError):
            return value
        return parsed if isinstance(parsed, list) and parsed and all(map(_is_message, parsed)) else value
    return [value] if _is_message(value) else value


def _is_message(value: Any) -> bool:
    return isinstance(value, Mapping) and (value.get("role") is not None or value.get("from") is not None)


def kept_value(value: Any, column: str) -> Any:
    """Return a further column's value; NaN, which marks what is missing in tables, as null.

    Raises InputError for what JSON lacks.
    """
    if isinstance(value, float):
        return value if isfinite(value) else _no_number(value, column)
    if isinstance(value, Mapping):
        return {str(key): kept_value(part, column) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [kept_value(part, column) for part in value]
    if value is None or isinstance(value, str | int):
        return value
    raise InputError(f"column {column!r} holds {type(value).__name__}, which a dataset cannot hold")


def _no_number(value: float, column: str) -> None:
    if value == value:  # an infinity is no missing value
        raise InputError(f"column {column!r} holds {value}, which JSON lacks")
