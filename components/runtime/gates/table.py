"""Rows of an artifact as a table that Great Expectations can check. Runs in the gate's worker only."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from components.contract.artifacts import canonical_json

ROWS = "rows.jsonl"
SHARDS = "rows-*.jsonl"
FIRST_ROW = 1
"""Rows are numbered from 1, like lines."""


class BadRows(Exception):
    """The rows cannot be read at all; the message names file and line."""


def read_rows(folder: Path) -> list[dict[str, Any]]:
    """Return all rows of a dataset; raise BadRows for the first line that is not a JSON object."""
    return list(_rows(folder))


def to_table(rows: list[dict[str, Any]], wanted: Iterable[str] = ()) -> pd.DataFrame:
    """Return rows as a table: one column per key, indexed by row numbers from 1.

    Lists and objects become their canonical JSON text. `wanted` names like "data.depth" become separate columns if
    any row has them; a key that a row lacks is null.
    """
    names = sorted({name for row in rows for name in row})
    inner = sorted({name for name in wanted if "." in name and name not in names})
    columns = {name: _column([row.get(name) for row in rows]) for name in names}
    for name in inner:
        values = [_inner(row, name.split(".")) for row in rows]
        if any(value is not None for value in values):
            columns[name] = _column(values)
    return pd.DataFrame(columns, index=pd.RangeIndex(FIRST_ROW, len(rows) + FIRST_ROW))


def _rows(folder: Path) -> Iterator[dict[str, Any]]:
    single = folder / ROWS
    files = [single] if single.is_file() else sorted(folder.glob(SHARDS))
    if not files:
        raise BadRows(f"there is no {ROWS} and no {SHARDS}")
    for path in files:
        with path.open("rb") as stream:
            for number, line in enumerate(stream, start=1):
                if line.strip():
                    yield _row(line, f"{path.name}:{number}")


def _row(line: bytes, where: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise BadRows(f"{where} is not a line of JSON: {error}") from error
    if not isinstance(row, dict):
        raise BadRows(f"{where} is {type(row).__name__}, not an object")
    return row


def _inner(row: dict[str, Any], path: list[str]) -> Any:
    value: Any = row
    for key in path:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def _column(values: list[Any]) -> list[Any] | pd.Series:
    """Keep values unchanged (so that nulls do not turn integers into floats), except in purely numeric columns."""
    flat = [canonical_json(v).decode() if isinstance(v, dict | list) else v for v in values]
    numeric = all(isinstance(value, int | float) and not isinstance(value, bool) for value in flat)
    return pd.Series(flat, dtype=None if numeric else object, index=pd.RangeIndex(FIRST_ROW, len(flat) + FIRST_ROW))
