"""Rows to try an operator on: items, each with the completions that it is to judge."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from components.contract.errors import InputError
from components.contract.operators import OperatorSpec
from components.tasks.item import Item
from components.tasks.mutations import mutate
from components.tasks.source import BadRow, SourceRow
from components.tasks.table_files import JSONL_SUFFIXES, PARQUET_SUFFIXES, NamedRow, find_files, read_table
from components.tasks.tables import Columns, TableConfig, table_rows

SUFFIXES = (*JSONL_SUFFIXES, *PARQUET_SUFFIXES)
DOMAIN = "mine"
ANSWER, WRONG, GIVEN = "the answer", "a wrong one", "given"


@dataclass(frozen=True)
class Read:
    """How rows are read."""

    path: str
    limit: int
    prompt: str = "prompt"
    answer: str = "answer"
    completions: str | None = None
    """A column with completions, in place of the answer and a wrong one."""
    final_answer: bool = False


@dataclass(frozen=True)
class Case:
    """One completion of one row."""

    where: str
    item: Item
    completion: str
    is_what: str
    """ANSWER, WRONG or GIVEN."""


def read_cases(read: Read, operator: OperatorSpec) -> list[Case]:
    """Return the cases of the first rows; raise InputError with file and line for a row that cannot be read.

    Without a column of completions each row gives two: its answer, and a wrong one near it. All other columns of a row
    are in the item's `data`.
    """
    cases = [
        case for where, row, data in islice(_rows(read, operator), read.limit) for case in _cases(where, row, data)
    ]
    if not cases:
        raise InputError(f"{read.path}: no rows")
    return cases


def _rows(read: Read, operator: OperatorSpec) -> Iterator[tuple[str, SourceRow, dict[str, Any]]]:
    columns = Columns(prompt=read.prompt, answer=read.answer, response=read.completions)
    config = TableConfig(columns=columns, verifier=operator, final_answer=read.final_answer)
    own = {read.prompt, read.answer, read.completions}
    for path in find_files(read.path, SUFFIXES):
        for named in read_table(path):
            further = _further(named[1], own) if isinstance(named, tuple) else {}
            for row in _mapped(named, config, path):
                yield str(path.with_name(row.where)), row, further


def _mapped(named: NamedRow | BadRow, config: TableConfig, path: Path) -> Iterator[SourceRow]:
    try:
        yield from (row for row in table_rows([named], config) if isinstance(row, SourceRow))
    except InputError as error:
        text = str(error).replace(path.name, str(path), 1).replace("set columns.response", "set --completions")
        for name in ("prompt", "answer"):
            text = text.replace(f"set columns.{name}", f"name it by --{name}")
        raise InputError(text) from error


def _further(row: Mapping[str, Any], own: set[str | None]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in own}


def _cases(where: str, row: SourceRow, data: dict[str, Any]) -> Iterator[Case]:
    item = replace(row, data={**data, **row.data}).item(DOMAIN)
    if row.response is not None:
        yield Case(where, item, row.response, GIVEN)
        return
    yield Case(where, item, item.answer, ANSWER)
    yield Case(where, item, mutate(item.answer, random.Random(item.id)), WRONG)
