"""The countdown game: ways to join numbers two by two, each a leaf of the search tree."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from components.contract.errors import InputError
from components.tasks.item import Item

MAX_LEAVES = 20_000
"""Leaves that are looked at for a right one; more than there are with four numbers."""
STRENGTH = {"+": 0, "-": 0, "*": 1, "/": 1}
Part = tuple[Fraction, str, str]
"""A value, its expression, and the operation that binds least in it."""


@dataclass(frozen=True)
class Leaf:
    """One way to join all numbers."""

    value: Fraction
    steps: tuple[str, ...]
    """Each operation with its result: `3+4=7`."""
    expression: str


def read_game(item: Item, demonstrator: str) -> tuple[list[int], int]:
    """Return the numbers and the target of an item of reasoning-gym's countdown; raise InputError for any other."""
    metadata = item.data.get("metadata")
    known = metadata if isinstance(metadata, dict) else {}
    numbers, target = known.get("numbers"), known.get("target")
    if not (isinstance(numbers, list) and all(type(n) is int for n in numbers) and type(target) is int and numbers):
        raise InputError(f"demonstrator {demonstrator}: item {item.id} is not of task countdown (numbers: {numbers!r})")
    return numbers, target


def leaves(numbers: list[int], rng: random.Random) -> Iterator[Leaf]:
    """Yield the leaves of a depth-first search that tries pairs and operations in random order.

    Results stay whole and not negative, as players keep them.
    """
    yield from _leaves([(Fraction(number), str(number), "") for number in numbers], (), rng)


def right_leaf(item: Item, numbers: list[int], target: int, rng: random.Random) -> Leaf:
    """Return a leaf that hits the target: of a search or, where a long one finds none, the one that the item is of.

    Raises InputError for an item of many numbers that does not hold its own.
    """
    for count, leaf in enumerate(leaves(numbers, rng)):
        if leaf.value == target:
            return leaf
        if count >= MAX_LEAVES:
            break
    steps = item.data.get("steps")
    if isinstance(steps, list) and steps:
        return Leaf(Fraction(target), tuple(map(str, steps)), item.answer)
    raise InputError(f"item {item.id}: no whole steps from {numbers} to {target} were found")


def wrong_leaves(numbers: list[int], target: int, count: int, rng: random.Random) -> list[Leaf]:
    """Return different leaves that miss the target, each from a search of its own; fewer where there are no more."""
    found: dict[tuple[str, ...], Leaf] = {}
    for _ in range(20 * count):
        leaf = next((one for one in leaves(numbers, rng)), None)
        if leaf is not None and leaf.value != target:
            found.setdefault(leaf.steps, leaf)
        if len(found) == count:
            break
    return list(found.values())


def _leaves(parts: list[Part], steps: tuple[str, ...], rng: random.Random) -> Iterator[Leaf]:
    if len(parts) == 1:
        yield Leaf(parts[0][0], steps, parts[0][1])
        return
    moves = [(i, j, sign) for i in range(len(parts)) for j in range(len(parts)) if i != j for sign in "+-*/"]
    rng.shuffle(moves)
    for i, j, sign in moves:
        first, second = parts[i], parts[j]
        value = _join(first[0], second[0], sign)
        if value is None or (sign in "+*" and i > j):
            continue
        rest = [part for place, part in enumerate(parts) if place not in (i, j)]
        step = f"{first[0]}{sign}{second[0]}={value}"
        yield from _leaves([*rest, (value, _written(first, second, sign), sign)], (*steps, step), rng)


def _join(first: Fraction, second: Fraction, sign: str) -> Fraction | None:
    if sign == "+":
        return first + second
    if sign == "*":
        return first * second
    if sign == "-":
        return first - second if first >= second else None
    return first / second if second and (first / second).denominator == 1 else None


def _written(first: Part, second: Part, sign: str) -> str:
    """Return two expressions joined, in brackets where they bind less."""

    def bracketed(part: Part, right: bool) -> bool:
        if not part[2]:
            return False
        return STRENGTH[part[2]] < STRENGTH[sign] or (right and sign in "-/" and STRENGTH[part[2]] == STRENGTH[sign])

    left = f"({first[1]})" if bracketed(first, False) else first[1]
    return f"{left}{sign}{f'({second[1]})' if bracketed(second, True) else second[1]}"
