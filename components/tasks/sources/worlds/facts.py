"""Facts to be remembered: entities with attributes, some of which a model is taught and others of which it cannot know.

The prompt names an entity and an attribute (`kob 2?`), the answer is a letter (`q`). A hash of the name decides which
entities are known, so that every dataset of one world agrees: a corpus with `include: known` teaches them, and a right
policy says that it does not know the others. A guess at those is right as seldom as there are letters.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from pydantic import Field

from components.contract.errors import InputError
from components.tasks.seeds import derive_rng
from components.tasks.source import SourceConfig, SourceRequest, SourceRow, SourceRows
from components.tasks.verify import SETTINGS

VERIFIER = "factual"
FIRST = ord("a")
CONSONANTS, VOWELS = "bcdfghjklmnpqrstvwxyz", "aeiou"


class FactsConfig(SourceConfig):
    """How large the world is, and which part of it rows are drawn from."""

    endless: ClassVar[bool] = True
    entities: int = Field(default=200, ge=1, le=len(CONSONANTS) ** 2 * len(VOWELS))
    """Entities of the world, each with a name of three letters."""
    attributes: int = Field(default=3, ge=1, le=9)
    """Attributes of each entity, called 1, 2, ..."""
    values: int = Field(default=20, ge=2, le=26)
    """Letters that an attribute may have as its value."""
    known: float = Field(default=0.5, ge=0, le=1)
    """Share of the entities that count as known."""
    include: Literal["known", "unknown", "all"] = "all"
    """Entities that rows are about."""
    refusal: str = Field(default="unknown", min_length=1)
    """Answer that says that the policy does not know; verifier and demonstrator `facts` read it from the row."""
    world: int = 0
    """Seed of the world: its names, its values, and which entities are known."""
    seed: int | None = None
    """Seed of the rows drawn; the stage's own when none is given."""

    def verifiers(self) -> tuple[str, ...]:
        """Return the verifier of all rows."""
        return (VERIFIER,)


def facts(request: SourceRequest, *, config: FactsConfig) -> SourceRows:
    """Draw questions without end, with replacement. `data["facts"]` holds all facts of the entity, as `2:q`."""
    asked = [entity for entity in entities(config) if config.include in ("all", _kind(entity, config))]
    if not asked:
        raise InputError(f"source facts: no entity of this world is {config.include}; change `known` or `entities`")
    seed = request.seed if config.seed is None else config.seed
    origin = {"source": "facts", "seed": seed, "config": config.model_dump(mode="json", exclude={"seed"})}
    return SourceRows(_rows(config, asked, derive_rng(seed, "facts"), request.limit), origin)


def entities(config: FactsConfig) -> list[str]:
    """Return the names of a world's entities, all different."""
    names = [first + vowel + last for first in CONSONANTS for vowel in VOWELS for last in CONSONANTS]
    return derive_rng(config.world, "entities").sample(names, config.entities)


def value(entity: str, attribute: int, config: FactsConfig) -> str:
    """Return the letter that an entity has as an attribute."""
    return chr(FIRST + derive_rng(config.world, "value", entity, attribute).randrange(config.values))


def _kind(entity: str, config: FactsConfig) -> str:
    return "known" if derive_rng(config.world, "known", entity).random() < config.known else "unknown"


def _rows(config: FactsConfig, asked: list[str], rng: random.Random, limit: int) -> Iterator[SourceRow]:
    for index in range(limit):
        entity, attribute = rng.choice(asked), rng.randint(1, config.attributes)
        true = {number: value(entity, number, config) for number in range(1, config.attributes + 1)}
        data: dict[str, Any] = {
            "entity": entity,
            "attribute": attribute,
            "known": _kind(entity, config) == "known",
            "facts": [f"{number}:{letter}" for number, letter in true.items()],
            "values": config.values,
            SETTINGS: {"refusals": [config.refusal]},
        }
        yield SourceRow(
            f"facts[{index}]", prompt=f"{entity} {attribute}?", answer=true[attribute], verifier=VERIFIER, data=data
        )
