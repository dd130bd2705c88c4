"""Rows of files that a recipe gives to a stage itself: read as a source reads them, unless they have our columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain, islice
from typing import Any

from components.contract.errors import InputError
from components.tasks.asked import Taking, asked_row, verifier_of
from components.tasks.shapes.convert import converted
from components.tasks.shapes.recognise import recognised
from components.tasks.source import SourceRow

FIRST_ROWS = 100
"""Rows that tell the shape of all."""
ID = "id"
DOMAIN = "unnamed"
"""The domain of rows that name none, as metrics call it."""
OURS = (
    {"verifier"},
    {"prompt", "response"},
    {"messages"},
    {"chosen", "rejected"},
    {"completions", "labels"},
    {"completion", "label"},
    {"completion", "score"},
    {"text"},
)
"""Columns of rows that stages read as they are."""
THEIRS = frozenset({"conversations", "conversation", "instruction", "question", "query", "problem"})
"""Columns that ask something in pairs of other tools."""


def as_ours(rows: Iterator[tuple[str, dict[str, Any]]], name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield named rows with our columns: as they are, or converted by the shape of the first ones, which is told.

    Raises InputError, with file and place, for a row that cannot be converted.
    """
    start = next(rows, None)
    if start is None or _is_ours(start[1]):
        yield from chain([start] if start else [], rows)
        return
    first = [start, *islice(rows, FIRST_ROWS - 1)]
    taking, line = _taking([row for _, row in first])
    if taking is None:
        yield from chain(first, rows)
        return
    _tell(f"dataset: {name}: {line}")
    for where, row in chain(first, rows):
        try:
            yield where, _converted(where, row, taking)
        except InputError as error:
            raise InputError(f"{where}: {error}") from error


def reading(rows: Iterator[tuple[str, dict[str, Any]]], name: str) -> str | None:
    """Return the line that says how rows are converted; None where they have our columns."""
    first = [row for _, row in islice(rows, FIRST_ROWS)]
    if not first or _is_ours(first[0]):
        return None
    taking, line = _taking(first)
    return f"dataset: {name}: {line}" if taking else None


def _is_ours(row: Mapping[str, Any]) -> bool:
    theirs = any(isinstance(row.get(side), Mapping) for side in ("chosen", "rejected"))
    theirs = theirs or not ({"prompt", "messages"} & row.keys() or THEIRS.isdisjoint(row))
    return not theirs and any(columns <= row.keys() for columns in OURS)


def _taking(rows: Sequence[Mapping[str, Any]]) -> tuple[Taking | None, str]:
    """Return how rows are converted, and the same in words; None where the columns tell no shape."""
    try:
        shape = recognised(rows, {})
    except InputError:
        return None, ""
    shape = replace(shape, left={name: why for name, why in shape.left.items() if name != ID})
    verifier, why = verifier_of(rows, shape, shape.final_answer)
    more = f"; {why}" if shape.kind == "task" and verifier else ""
    return Taking(shape, verifier, shape.final_answer), f"{shape.described()}{more}"


def _converted(where: str, row: Mapping[str, Any], taking: Taking) -> dict[str, Any]:
    found = converted(row, taking.shape)
    if taking.shape.kind != "task":
        return found
    domain = found.get("domain") or DOMAIN
    labels = {"domain": domain, "id": None if row.get(ID) is None else str(row[ID])}
    asked: SourceRow = asked_row(where, found, taking, found.pop("data", {}), labels)
    response = {} if asked.response is None else {"response": asked.response}
    return {**asked.item(domain).row(), **asked.extras, **response}


@cache
def _tell(line: str) -> None:
    """Print a line once in a process: rows are read more than once."""
    print(line, flush=True)
