"""Notes of source notes: their points in free wording, some of them careless."""

from __future__ import annotations

import random

from pydantic import Field

from components.contract.errors import InputError
from components.contract.params import Params
from components.tasks.answers import ANSWER_OPEN
from components.tasks.item import Item

JOINS = (" then ", " and ", ", ")


class NotesDemonstratorConfig(Params):
    """How careful the writer is, and how fond of praise."""

    drop: float = Field(default=0.0, ge=0, le=1)
    """Probability that a point is left out."""
    swap: float = Field(default=0.0, ge=0, le=1)
    """Probability that two neighbouring points change places."""
    praise: float = Field(default=0.0, ge=0, le=1)
    """Probability that the item's phrase of praise ends the note."""


def notes(item: Item, rng: random.Random, *, config: NotesDemonstratorConfig) -> str:
    """Write `<answer>b7 then k2 and m9.`, the joining words drawn at random."""
    points, praise = item.data.get("points"), item.data.get("praise")
    if not (isinstance(points, list) and points and isinstance(praise, str)):
        raise InputError(f"demonstrator notes: item {item.id} is not of source notes (points: {points!r})")
    kept = [point for point in points if rng.random() >= config.drop] or points[:1]
    if len(kept) > 1 and rng.random() < config.swap:
        place = rng.randrange(len(kept) - 1)
        kept[place], kept[place + 1] = kept[place + 1], kept[place]
    text = kept[0] + "".join(rng.choice(JOINS) + point for point in kept[1:])
    return f"{ANSWER_OPEN}{text}.{f' {praise}' if rng.random() < config.praise else ''}"
