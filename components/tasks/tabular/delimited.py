"""CSV and TSV: a header, then rows whose cells are texts, as they are written."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from components.contract.errors import InputError
from components.tasks.json_lines import without_mark
from components.tasks.source import BadRow
from components.tasks.tabular.opened import NamedRow, opened, whole_lines

LONGEST_CELL = 1 << 30
TAB = "\t"
OTHERS = (";", TAB, "|")
"""Separators of a `.csv` whose header has no comma; spreadsheets write them where the comma is the decimal sign."""


def read_delimited(path: Path) -> Iterator[NamedRow | BadRow]:
    """Yield the rows of a file with a header; cells are texts, so that 007 stays 007, and empty ones are left out.

    Places are lines: of a row with line breaks in its cells, the last. Raises InputError for a file without a usable
    header; a row with more or fewer cells is a bad row.
    """
    csv.field_size_limit(LONGEST_CELL)
    with opened(path) as stream:
        lines = _texts(whole_lines(stream, path), path.name)
        first = next(lines, "")
        if not first.strip():
            return
        separator = _separator(first, path)
        reader = csv.reader(_chained(first, lines), delimiter=separator, strict=True)
        try:
            header = [name.strip() for name in next(reader)]
            _check_header(header, path.name)
            for cells in reader:
                where = f"{path.name}:{reader.line_num}"
                if len(cells) == len(header):
                    yield where, {name: cell for name, cell in zip(header, cells, strict=True) if cell}
                elif any(cells):
                    hint = f"texts with {separator!r} stand in quotes"
                    yield BadRow(where, f"{len(cells)} cells, where the header has {len(header)}; {hint}")
        except csv.Error as error:
            raise InputError(f"{path.name}:{reader.line_num}: not a readable table: {error}") from error


def _texts(lines: Iterator[bytes], name: str) -> Iterator[str]:
    for number, raw in enumerate(lines, start=1):
        raw = without_mark(raw, name) if number == 1 else raw
        try:
            yield raw.decode()
        except UnicodeDecodeError as error:
            raise InputError(f"{name}:{number}: not UTF-8: {error}; save it as UTF-8") from error


def _chained(first: str, lines: Iterator[str]) -> Iterator[str]:
    yield first
    yield from lines


def _separator(header: str, path: Path) -> str:
    if ".tsv" in path.suffixes[-2:]:
        return TAB
    found = [mark for mark in OTHERS if mark in header]
    return found[0] if found and "," not in header else ","


def _check_header(header: list[str], name: str) -> None:
    if twice := next((column for column in header if column and header.count(column) > 1), None):
        raise InputError(f"{name}:1: the header has the column {twice[:60]!r} twice; rename one")
    if not all(header):
        raise InputError(f"{name}:1: column {header.index('') + 1} has no name; the first line is the header")
