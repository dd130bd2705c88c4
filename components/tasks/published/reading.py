"""What readers of published rows share: fields by type, and texts that hold JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from components.contract.errors import InputError
from components.tasks.source import SourceRow
from components.tasks.table_values import check_unicode
from components.tasks.tables import user_text

MAX_JSON_CHARS = 64 << 20
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Reading:
    """How the rows of a set are read: settings of the recipe."""

    verifier: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Of the verifier; they travel with each row."""
    max_tests: int = 0
    """Most tests of a program."""
    databases: Path | None = None
    """The folder of the databases that questions are about."""


Reader = Callable[[str, Row, Reading], SourceRow]
"""Reads a named row, or raises InputError saying what is wrong with it."""


def text(row: Row, key: str) -> str:
    """Return a field's text, not blank."""
    value = row.get(key)
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"no {key}")
    if not value.isascii():
        check_unicode(value, key)
    return value


def optional_text(row: Row, key: str) -> str:
    """Return a field's text, or "" if it has none."""
    value = row.get(key)
    return text(row, key) if isinstance(value, str) and value.strip() else ""


def parsed(row: Row, key: str) -> Any:
    """Return the JSON value that a field's text holds."""
    written = text(row, key)
    if len(written) > MAX_JSON_CHARS:
        raise InputError(f"{key} is longer than {MAX_JSON_CHARS:,} characters")
    try:
        value = json.loads(written)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{key} is no JSON: {str(error)[:100]}") from error
    if "\\u" in written:  # an escape may stand for what no file can hold
        check_unicode(json.dumps(value, ensure_ascii=False), key)
    return value


def asked(row: Row) -> str:
    """Return what the user says in `prompt`, a list of chat messages."""
    return user_text(row.get("prompt"), "prompt")


def truth(row: Row) -> Row:
    """Return `reward_model`, which holds `ground_truth`."""
    found = row.get("reward_model")
    if not isinstance(found, Mapping):
        raise InputError("no reward_model")
    return found
