"""Foreign rows as rows of a source: converted by their shape, then checked as ours are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from components.tasks.asked import Taking, asked_row
from components.tasks.item import UNLABELLED
from components.tasks.row_kinds.labelled import labelled_of
from components.tasks.row_kinds.preferences import preference_of
from components.tasks.shapes.convert import converted
from components.tasks.shapes.shape import Shape
from components.tasks.shapes.values import at
from components.tasks.source import SourceRow
from components.tasks.table_values import checked_text
from components.tasks.tables import further_data

ASKED = ("prompt", "messages", "domain", "id")
"""What of a judged row stands in fields of its own."""


def taken_row(where: str, row: Mapping[str, Any], taking: Taking) -> SourceRow:
    """Return the row of a source; raise InputError for what is missing or cannot be read."""
    found = converted(row, taking.shape)
    data = {**found.pop("data", {}), **further_data(row, taking.data)}
    labels = {"domain": _label(found.get("domain"), "domain"), "id": None}
    if taking.id_column:
        labels["id"] = checked_text(at(row, taking.id_column), taking.id_column, "id")
    if taking.shape.kind == "text":
        return SourceRow(where, text=checked_text(found.get("text"), "text", "text"), **labels)
    if taking.shape.kind != "task":
        return _judged(where, found, taking.shape, data, labels)
    return asked_row(where, found, taking, data, labels)


def _judged(
    where: str, found: Mapping[str, Any], shape: Shape, data: dict[str, Any], labels: Mapping[str, Any]
) -> SourceRow:
    """Return a prompt that holds a pair, or a response with its label."""
    row = {**{name: value for name, value in data.items() if name not in ASKED}, **found}
    judged = preference_of(row) if shape.kind == "pairs" else labelled_of(row)
    task = {"prompt": judged.task} if isinstance(judged.task, str) else {"messages": judged.task}
    kept = {name: value for name, value in judged.row().items() if name not in ASKED}
    more = {name: value for name, value in data.items() if name not in kept}
    return SourceRow(where, **task, verifier=UNLABELLED, data=more, extras=kept, **labels)


def _label(value: Any, column: str) -> str | None:
    return None if value is None else checked_text(value, column, column)
