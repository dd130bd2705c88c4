"""The response that came with the item's row: a person's or a larger model's."""

from __future__ import annotations

import random

from components.contract.errors import InputError
from components.contract.params import Params
from components.tasks.item import Item


class RecordedConfig(Params):
    """Where the response is."""

    key: str = "solution"
    """Key of the item's data that holds it; a source puts columns there by its `columns.data`."""


def recorded(item: Item, rng: random.Random, *, config: RecordedConfig) -> str:
    """Return the text under `key`; raise InputError where the item has none."""
    text = item.data.get(config.key)
    if not isinstance(text, str) or not text:
        known = ", ".join(sorted(item.data)) or "nothing"
        raise InputError(f"demonstrator recorded: item {item.id} has no text under {config.key!r} (its data: {known})")
    return text
