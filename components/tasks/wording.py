"""What an item says, as one text: marks that it names are part of the answers to it."""

from __future__ import annotations

import json

from components.tasks.item import Item


def item_wording(item: Item) -> str:
    """Return prompt, reference answer and the verifier's data of an item, one behind the other."""
    data = json.dumps(item.data, ensure_ascii=False, sort_keys=True) if item.data else ""
    return f"{item.prompt}\n{item.answer}\n{data}"
