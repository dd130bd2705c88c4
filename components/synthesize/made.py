"""What a generator returns, row by row, and how a checkpoint keeps it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from components.synthesize.config import Kind
from components.tasks.item import Item
from components.tasks.source import BadRow, SourceRow

Row = dict[str, Any]
BLANK = "blank"


@dataclass(frozen=True)
class Made:
    """A new row: an item, perhaps with a response, or plain text."""

    item: Item
    """For plain text: its id, domain and, as the prompt, the text."""
    response: str | None = None
    extras: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the row, such as who wrote it."""


@dataclass(frozen=True)
class Dropped:
    """A text that did not become a row."""

    reason: str
    """One of few words, such as "wrong": the card counts by it."""


def to_log(rows: Sequence[Made | Dropped]) -> list[Row]:
    """Return plain JSON that `from_log` inverts."""
    return [
        {"dropped": row.reason}
        if isinstance(row, Dropped)
        else {"item": row.item.row(), "response": row.response, "extras": dict(row.extras)}
        for row in rows
    ]


def from_log(rows: Sequence[Row]) -> list[Made | Dropped]:
    """Undo `to_log`."""
    return [
        Dropped(row["dropped"])
        if "dropped" in row
        else Made(Item.model_validate(row["item"]), row["response"], row["extras"])
        for row in rows
    ]


def source_rows(rows: Sequence[Made | Dropped], where: str, *, kind: Kind) -> Iterator[SourceRow | BadRow]:
    """Yield what the chain of checks takes; a labelled response without text is dropped, as no stage reads one."""
    for row in rows:
        if isinstance(row, Dropped):
            yield BadRow(where, row.reason, row.reason)
        elif kind == "labelled" and not (row.response or "").strip():
            yield BadRow(where, BLANK, BLANK)
        elif kind == "corpus":
            yield SourceRow(where, text=row.item.prompt, id=row.item.id, domain=row.item.domain, extras=row.extras)
        else:
            yield SourceRow.of(row.item, where, response=row.response, extras=row.extras)
