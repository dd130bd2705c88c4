"""Records to be completed freely and written in several ways at once: right is what says the same in all of them.

`views: 2_4` has gaps; `214 cbe 412` fills the gap with 1 and writes the record in digits, in letters and backward. Any
filling is right, so variety can be seen beside consistency. The text form of Carve3D (2023), whose views of one object
are images: a frozen decoder reconstructs the record of all views, and each is compared with it.
"""

from __future__ import annotations

import random
from itertools import product
from typing import Any, Self

from pydantic import Field, model_validator

from components.contract.errors import InputError
from components.tasks.answers import ANSWER_OPEN
from components.tasks.domains.made import Made, MadeConfig, made_rows
from components.tasks.domains.worlds.records import ENCODINGS, MAX_VALUES, Record, write_view
from components.tasks.item import RIGHT_RESPONSES
from components.tasks.source import SourceRequest, SourceRows

VERIFIER = "views"
GAP = "_"
MAX_LISTED = 1000


class ViewsConfig(MadeConfig):
    """How large records are, and how many views are asked for."""

    fields: int = Field(default=4, ge=1, le=12)
    """Fields of a record."""
    values: int = Field(default=5, ge=2, le=MAX_VALUES)
    """Values that a field may have."""
    given: int = Field(default=2, ge=0)
    """Fields that the prompt states; the others are gaps."""
    views: int = Field(default=3, ge=2, le=len(ENCODINGS))
    """Encodings that are asked for, in the order of `ENCODINGS`: with `fields` the knob of difficulty."""
    list_right: bool = False
    """Whether each row lists its right responses, one for each filling: what an exact evaluation scores."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.given > self.fields:
            raise InputError(f"source views: given {self.given} is above fields {self.fields}")
        if self.list_right and self.values ** (self.fields - self.given) > MAX_LISTED:
            raise InputError(f"source views: list_right with more than {MAX_LISTED} fillings of the gaps")
        return self

    def verifiers(self) -> tuple[str, ...]:
        """Return the verifier of all rows."""
        return (VERIFIER,)


def views(request: SourceRequest, *, config: ViewsConfig) -> SourceRows:
    """Draw records with gaps without end. The reference answer fills the gaps by chance; verifier `views` takes any."""

    def draw(rng: random.Random) -> Made:
        record = tuple(rng.randrange(config.values) for _ in range(config.fields))
        shown = set(rng.sample(range(config.fields), config.given))
        stated = [field if place in shown else None for place, field in enumerate(record)]
        data: dict[str, Any] = {"given": stated, "values": config.values, "encodings": list(ENCODINGS)[: config.views]}
        if config.list_right:
            choices = [range(config.values) if field is None else (field,) for field in stated]
            data[RIGHT_RESPONSES] = [f"{ANSWER_OPEN}{_written(filled, config)}" for filled in product(*choices)]
        text = "".join(GAP if field is None else str(field) for field in stated)
        return Made(text, f"views: {text}", _written(record, config), data)

    return made_rows("views", request, config, VERIFIER, draw)


def _written(record: Record, config: ViewsConfig) -> str:
    encodings = list(ENCODINGS)[: config.views]
    return " ".join(write_view(encoding, record, config.values) for encoding in encodings)
