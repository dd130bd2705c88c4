"""Latin squares with holes: each row and each column holds each number once."""

from __future__ import annotations

import random

HOLE = "_"
BETWEEN = "/"
Square = list[list[int]]


def draw_square(size: int, rng: random.Random) -> Square:
    """Return a Latin square, drawn row by row: whatever the rows before, there is always a next one."""
    square: Square = []
    while len(square) < size:
        row = _row(square, size, [], rng)
        assert row is not None
        square.append(row)
    return square


def show(square: Square, holes: set[tuple[int, int]]) -> str:
    """Return a square as text, such as `1_34/2341/...`."""
    rows = enumerate(square)
    return BETWEEN.join("".join(HOLE if (r, c) in holes else str(n) for c, n in enumerate(row)) for r, row in rows)


def read(text: str) -> tuple[Square, list[tuple[int, int]]] | None:
    """Return a puzzle's square, 0 in its holes, and the holes in the order of reading; None for any other text."""
    lines = text.split(BETWEEN)
    size = len(lines)
    signs = {HOLE, *(str(number) for number in range(1, size + 1))}
    if not 2 <= size <= 9 or any(len(line) != size or set(line) - signs for line in lines):
        return None
    holes = [(r, c) for r, line in enumerate(lines) for c, sign in enumerate(line) if sign == HOLE]
    return [[0 if sign == HOLE else int(sign) for sign in line] for line in lines], holes


def filled(square: Square, holes: list[tuple[int, int]], numbers: list[int]) -> Square:
    """Return a copy with the holes filled in order."""
    copy = [list(row) for row in square]
    for (row, column), number in zip(holes, numbers, strict=True):
        copy[row][column] = number
    return copy


def is_latin(square: Square) -> bool:
    """Return whether each row and each column holds each number once."""
    numbers = list(range(1, len(square) + 1))
    return all(sorted(line) == numbers for line in [*square, *zip(*square, strict=True)])


def fits(square: Square, place: tuple[int, int], number: int) -> bool:
    """Return whether a number is not yet in the row and the column of a place."""
    row, column = place
    return number not in square[row] and all(line[column] != number for line in square)


def _row(square: Square, size: int, begun: list[int], rng: random.Random) -> list[int] | None:
    """Return a next row that begins with these numbers, or None."""
    column = len(begun)
    if column == size:
        return begun
    used = {*begun, *(row[column] for row in square)}
    for number in rng.sample(range(1, size + 1), size):
        if number not in used and (row := _row(square, size, [*begun, number], rng)) is not None:
            return row
    return None
