"""The texts of an item, as one: marks that occur in it are part of the answers to it."""

from __future__ import annotations

import json

from components.tasks.item import Item


def item_wording(item: Item) -> str:
    """Return the prompt, reference answer and verifier's data of an item as one text."""
    data = json.dumps(item.data, ensure_ascii=False, sort_keys=True) if item.data else ""
    return f"{item.prompt}\n{item.answer}\n{data}"
