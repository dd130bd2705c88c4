"""Further columns of foreign rows: those that a row keeps, and those that it cannot."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from components.contract.errors import InputError
from components.tasks.shapes.values import kept_value

OURS = {
    "id": "ids are made of the content; columns: {id: id} takes it",
    "settings": "settings of a verifier come from the recipe",
    "right_responses": "a name of ours",
}
"""Names that data of an item cannot have -> why."""


def kept_and_left(
    rows: Sequence[Mapping[str, Any]], names: Sequence[str], taken: Collection[str]
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the further columns that are kept, and those that are not with the reason; empty ones are neither."""
    kept, left = [], {}
    for name in names:
        values = [row[name] for row in rows if row.get(name) not in (None, "")]
        if name in taken or not values:
            continue
        if why := OURS.get(name) or _reason(values, name):
            left[name] = why
        else:
            kept.append(name)
    return tuple(kept), left


def _reason(values: Sequence[Any], name: str) -> str | None:
    """Return why a column's values cannot be kept."""
    if name == "aliases" and not all(isinstance(value, list) for value in values):
        return "aliases are lists of texts"
    try:
        for value in values:
            kept_value(value, name)
    except InputError as error:
        return str(error).partition("holds ")[2] or "no JSON"
    return None
