"""Rows about a response to a task: the keys of their data, and the task read back."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from components.contract.errors import InputError
from components.tasks.item import Item

TASK, RESPONSE, CRITIQUE = "task", "response", "critique"
"""Keys of an item's data: the row of the task, the response to it that the item is about, and a critique of that."""


def about(task: Item, response: str) -> dict[str, Any]:
    """Return the data of an item about a response to a task."""
    return {TASK: {"name": task.id, **task.row()}, RESPONSE: response}  # what has a name may name a verifier


def task_of(item: Item, owner: str) -> tuple[Item, str]:
    """Return the task and the response that an item is about; raise InputError, begun by `owner`, without them."""
    response = item.data.get(RESPONSE)
    try:
        task = Item.model_validate(item.data.get(TASK))
    except ValidationError:
        task = None
    if task is None or not isinstance(response, str):
        raise InputError(
            f"{owner}: item {item.id} is about no response to a task (data.{TASK}, data.{RESPONSE}); make its row with "
            "generator attempts"
        )
    return task, response
