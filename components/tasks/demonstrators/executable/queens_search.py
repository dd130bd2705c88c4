"""Queens placed row by row, one trial after the other until a dead end (ToTRL)."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

from pydantic import Field

from components.contract.errors import InputError
from components.contract.params import Params
from components.tasks.answers import ANSWER_OPEN
from components.tasks.demonstrators.chain_sum_trace import THINK_OPEN
from components.tasks.domains.puzzles import BETWEEN, Cell
from components.tasks.item import Item

BACK = "no"
"""Follows a dead end."""
PROMPT = re.compile(r"queens ([4-6]) not((?: [1-6]{2})+)")


class QueensSearchConfig(Params):
    """How far the search goes."""

    stop: float = Field(default=0.0, ge=0, le=1)
    """Probability, at each solution, that the search ends there; the answer lists what was found."""


def queens_search(item: Item, rng: random.Random, *, config: QueensSearchConfig) -> str:
    """Write `<think>13 no 142 no 3142 413 no 42 no<answer>3142`: each trial, followed by `no` at a dead end.

    One trial after the other, in order: what ToTRL's trees are compared with. Demonstrator `solution_sets` writes the
    tree.
    """
    asked = PROMPT.search(item.prompt)
    if asked is None or item.data.get("puzzle") != "queens":
        raise InputError(f"demonstrator queens_search: item {item.id} asks for no queens: {item.prompt!r:.80}")
    blocked = {(int(cell[0]), int(cell[1])) for cell in asked[2].split()}
    steps, found = [], []
    for columns, whole in trials(int(asked[1]), blocked, ()):
        tried = "".join(map(str, columns))
        steps.append(tried if whole else f"{tried} {BACK}")
        if whole:
            found.append(tried)
            if rng.random() < config.stop:
                break
    return f"{THINK_OPEN}{' '.join(steps)}{ANSWER_OPEN}{BETWEEN.join(found)}"


def trials(size: int, blocked: set[Cell], columns: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], bool]]:
    """Yield the columns of each way to go on from `columns` until no row is left (True) or no column is free."""
    row = len(columns) + 1
    if row > size:
        yield columns, True
        return
    free = [
        column
        for column in range(1, size + 1)
        if (row, column) not in blocked
        and all(column != other and abs(column - other) != row - at for at, other in enumerate(columns, 1))
    ]
    if not free:
        yield columns, False
    for column in free:
        yield from trials(size, blocked, (*columns, column))
