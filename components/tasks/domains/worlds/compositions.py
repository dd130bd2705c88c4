"""Compositions of string functions that are all different: as functions, not only by name."""

from __future__ import annotations

from functools import cache
from itertools import combinations

from components.tasks.domains.worlds.string_functions import FIRST, KEEPS_LENGTH, apply_all
from components.tasks.seeds import derive_rng

NUM_PROBES = 12
Composition = tuple[str, ...]


@cache
def compositions(rules: int, size: int, length: int, letters: int, world: int) -> tuple[Composition, ...]:
    """Return compositions of `size` of the first `rules` functions that keep a word's length, in the world's order.

    Each set of functions occurs once, in one order. Two that agree on all probes count as the same, and the first is
    kept; so does one that a composition of fewer of its own functions replaces.
    """
    rng = derive_rng(world, "compositions", size)
    probes = ["".join(chr(FIRST + rng.randrange(letters)) for _ in range(length)) for _ in range(NUM_PROBES)]
    sets = [list(chosen) for chosen in combinations(KEEPS_LENGTH[:rules], size)]
    rng.shuffle(sets)
    found: dict[tuple[str, ...], Composition] = {}
    for chosen in sets:
        rng.shuffle(chosen)
        behaviour = _behaviour(tuple(chosen), probes, letters)
        shorter = (kept for fewer in range(size) for kept in combinations(chosen, fewer))
        if all(_behaviour(kept, probes, letters) != behaviour for kept in shorter):
            found.setdefault(behaviour, tuple(chosen))
    return tuple(found.values())


def _behaviour(composition: Composition, probes: list[str], letters: int) -> tuple[str, ...]:
    return tuple([word, *apply_all(composition, word, letters)][-1] for word in probes)
