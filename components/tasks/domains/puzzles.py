"""Puzzles with a few solutions, all of which are known: queens on a small board, and sums of letters."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import permutations

BETWEEN = ","
"""Between two solutions of an answer."""
Cell = tuple[int, int]


def queens(size: int, blocked: set[Cell]) -> list[str]:
    """Return all ways to place a queen in each row, none attacking another or on a blocked cell, in order.

    A way is the queens' columns from the first row on, each a digit from 1.
    """
    return ["".join(map(str, columns)) for columns in _queens(size, blocked, [])]


def sums(words: tuple[str, str, str], base: int) -> list[str]:
    """Return all ways to make first + second = third of different digits below `base`, in order.

    A way is the digits of the letters in alphabetical order. No word begins with 0.
    """
    letters = sorted(set("".join(words)))
    heads = {word[0] for word in words}
    found = []
    for digits in permutations(range(base), len(letters)):
        of = dict(zip(letters, digits, strict=True))
        if any(of[head] == 0 for head in heads):
            continue
        first, second, third = (int("".join(str(of[letter]) for letter in word), base) for word in words)
        if first + second == third:
            found.append("".join(map(str, digits)))
    return found


def draw_words(letters: int, length: int, rng: random.Random) -> tuple[str, str, str]:
    """Return three words of so many different letters at most, the third as long as the others or longer by one."""
    alphabet = "abcdefgh"[:letters]
    first, second = ("".join(rng.choice(alphabet) for _ in range(length)) for _ in range(2))
    third = "".join(rng.choice(alphabet) for _ in range(length + rng.randint(0, 1)))
    return first, second, third


def _queens(size: int, blocked: set[Cell], columns: list[int]) -> Iterator[list[int]]:
    row = len(columns) + 1
    if row > size:
        yield columns
        return
    for column in range(1, size + 1):
        attacked = any(column == other or abs(column - other) == row - at for at, other in enumerate(columns, 1))
        if not attacked and (row, column) not in blocked:
            yield from _queens(size, blocked, [*columns, column])
