"""Rows of Dataset and Rollouts artifacts: JSON objects, one a line, in `rows.jsonl` or sorted `rows-*.jsonl`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from components.contract.artifacts import canonical_json
from components.contract.errors import InputError
from components.contract.table_suffixes import table_suffix
from components.tasks.item import Item, item_from_row
from components.tasks.json_lines import iter_lines, parse_line
from components.tasks.outside_rows import as_ours
from components.tasks.source import BadRow
from components.tasks.table_files import read_table

ROWS = "rows.jsonl"
SHARDS = "rows-*.jsonl"


def row_files(folder: Path) -> list[Path]:
    """Return the row files of an artifact in reading order; raise InputError when it has none."""
    single = folder / ROWS
    files = [single] if single.is_file() else sorted(folder.glob(SHARDS)) or _given(folder)
    if not files:
        raise InputError(f"{folder}: no {ROWS} and no {SHARDS}; a dataset is a folder with one of them")
    return files


def _given(folder: Path) -> list[Path]:
    """Return the file that a recipe gave to a stage in another format."""
    return [path for path in sorted(folder.glob("rows.*")) if path.name == f"rows{table_suffix(path)}"][:1]


def iter_jsonl(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield ("file:line", object) for every line of a JSONL file, one line in memory at a time.

    Raises InputError that begins with file and line for a line that is not a JSON object.
    """
    with path.open("rb") as stream:
        for where, line in iter_lines(stream, path.name):
            try:
                yield where, parse_line(line)
            except InputError as error:
                raise InputError(f"{where}: {error}") from error


def iter_rows(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield ("file:line", row) of a Dataset or Rollouts folder, streamed; rows of other tools with our columns."""
    for path in row_files(folder):
        yield from as_ours(_rows_of(path), path.name)


def _rows_of(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    if path.suffix == ".jsonl":
        yield from iter_jsonl(path)
        return
    for row in read_table(path):
        if isinstance(row, BadRow):
            raise InputError(f"{row.where}: {row.problem}")
        yield row[0], dict(row[1])


def read_rows(folder: Path) -> list[dict[str, Any]]:
    """Return all rows of a Dataset or Rollouts folder; raise InputError with file and line for a bad one."""
    return [row for _, row in iter_rows(folder)]


def read_items(folder: Path) -> list[Item]:
    """Return the items of a folder of prompts, demonstrations or rollouts; raise InputError with file and line."""
    return [item_from_row(row, where) for where, row in iter_rows(folder)]


def write_rows(folder: Path, rows: Iterable[Mapping[str, Any]]) -> int:
    """Write rows in canonical JSON (sorted keys, ASCII) as `rows.jsonl` and return how many there were."""
    count = 0
    with (folder / ROWS).open("wb") as stream:
        for row in rows:
            stream.write(canonical_json(row) + b"\n")
            count += 1
    return count
