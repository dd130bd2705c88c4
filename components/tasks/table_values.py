"""Values of tables: texts, answers, and what a dataset can hold."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

from components.contract.errors import InputError


def checked_text(value: Any, column: str, role: str) -> str:
    """Return a column's text, or its number as text; raise InputError for what is neither, blank, NaN or infinite."""
    if isinstance(value, float) and not isfinite(value):
        raise InputError(f"the {role} is {value}, which is no number (column {column!r})")
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        raise InputError(f"the {role} is no text, but {type(value).__name__} (column {column!r})")
    if not value.strip():
        raise InputError(f"the {role} is empty (column {column!r})")
    if not value.isascii():
        check_unicode(value, column)
    return value


def row_answers(value: Any, column: str, verifier: str) -> list[str]:
    """Return the answer, and further right ones, which only `exact` takes."""
    if isinstance(value, Mapping):
        part = f"{column}.{next(iter(value), '...')}"
        raise InputError(f"the answer is an object (column {column!r}): name its part, columns: {{answer: {part}}}")
    if not isinstance(value, list):
        return [checked_text(value, column, "answer")]
    if verifier != "exact" or not value:
        raise InputError(
            f"the answer is a list of {len(value)} (column {column!r}); verifier exact accepts each entry of a list"
        )
    return [checked_text(entry, column, "answer") for entry in value]


def json_value(value: Any, column: str) -> Any:
    """Return a value that a dataset can hold; raise InputError for bytes, NaN and infinities, at any depth."""
    if isinstance(value, bytes) or (isinstance(value, float) and not isfinite(value)):
        raise InputError(f"column {column!r} holds {'bytes' if isinstance(value, bytes) else value}, which JSON lacks")
    if isinstance(value, Mapping):
        return {key: json_value(part, column) for key, part in value.items()}
    return [json_value(part, column) for part in value] if isinstance(value, list | tuple) else value


def check_unicode(value: str, column: str) -> None:
    """Raise InputError for half of a surrogate pair, which no file can hold."""
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"column {column!r}: half of a surrogate pair at character {error.start}") from error
