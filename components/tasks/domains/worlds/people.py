"""People with names of three letters, and who is whose."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from components.tasks.seeds import derive_rng

CONSONANTS, VOWELS = "bcdfghjklmnpqrstvwxyz", "aeiou"
MAX_PEOPLE = len(CONSONANTS) ** 2 * len(VOWELS)


@cache
def people(count: int, world: int) -> tuple[str, ...]:
    """Return the names of a world's people, all different."""
    names = [first + vowel + last for first in CONSONANTS for vowel in VOWELS for last in CONSONANTS]
    return tuple(derive_rng(world, "people").sample(names, count))


@cache
def person(of: str, relation: str, names: Sequence[str], world: int) -> str:
    """Return who is the `relation` of a person: somebody else, the same in every dataset of the world."""
    others = [name for name in names if name != of]
    return derive_rng(world, "relation", of, relation).choice(others)
