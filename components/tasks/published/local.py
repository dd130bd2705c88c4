"""Published sets in local files: JSONL or Parquet, or the folder that Spider's archive holds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from components.contract.errors import InputError
from components.contract.uploaded import files_of
from components.tasks.source import BadRow
from components.tasks.table_files import JSONL_SUFFIXES, PARQUET_SUFFIXES, NamedRow, find_files, read_table

if TYPE_CHECKING:
    from components.tasks.published.catalogue import PublishedSet

DATABASES = "database"
"""The folder beside Spider's questions with a folder for each database."""


def find_set(known: PublishedSet, path: str, split: str) -> list[Path]:
    """Return the files of a split at `path`; of a set with databases the questions first, then the databases.

    Raises InputError if there are none.
    """
    if not known.tables:
        return find_files(path, (*JSONL_SUFFIXES, *PARQUET_SUFFIXES))
    name = known.tables[split]
    folder = Path(path).expanduser()
    sent = files_of(path)
    files = sorted(folder.glob(f"{DATABASES}/*/*")) if sent is None else sent
    questions = [folder / name] if sent is None else [file for file in sent if file.name == name]
    if not questions or not questions[0].is_file():
        raise InputError(f"{path}: expected the set's folder, with {name} and {DATABASES}/")
    return [questions[0], *(file for file in files if file.name in (f"{file.parent.name}.sqlite", "schema.sql"))]


def rows_of(known: PublishedSet, files: list[Path]) -> Iterable[NamedRow | BadRow]:
    """Return the named rows of local files."""
    return _listed(files[0]) if known.tables else (row for path in files for row in read_table(path))


def _listed(path: Path) -> Iterator[NamedRow | BadRow]:
    """Yield the objects of a JSON list."""
    try:
        rows = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path.name}: no JSON: {str(error)[:100]}") from error
    if not isinstance(rows, list):
        raise InputError(f"{path.name}: expected a list of questions")
    for number, row in enumerate(rows, start=1):
        where = f"{path.name}:item {number}"
        yield (where, row) if isinstance(row, Mapping) else BadRow(where, "no object")
