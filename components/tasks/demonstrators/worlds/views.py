"""Views of source views: any filling of the gaps, in all encodings, some of them careless."""

from __future__ import annotations

import random

from pydantic import Field

from components.contract.errors import InputError
from components.contract.params import Params
from components.tasks.answers import ANSWER_OPEN
from components.tasks.domains.worlds.records import write_view
from components.tasks.item import Item


class ViewsDemonstratorConfig(Params):
    """How careful the writer is."""

    field_error_rate: float = Field(default=0.0, ge=0, le=1)
    """Probability of each field of each view but the first to be another one than the record's."""


def views(item: Item, rng: random.Random, *, config: ViewsDemonstratorConfig) -> str:
    """Write `<answer>214 cbe 412`, the gaps filled by chance."""
    stated, encodings, values = (item.data.get(key) for key in ("given", "encodings", "values"))
    if not (isinstance(stated, list) and isinstance(encodings, list) and isinstance(values, int)):
        raise InputError(f"demonstrator views: item {item.id} is not of source views (given: {stated!r:.80})")
    record = tuple(rng.randrange(values) if field is None else field for field in stated)
    written = []
    for place, encoding in enumerate(encodings):
        rate = config.field_error_rate if place else 0.0
        shown = tuple((field + rng.randrange(1, values)) % values if rng.random() < rate else field for field in record)
        written.append(write_view(encoding, shown, values))
    return f"{ANSWER_OPEN}{' '.join(written)}"
