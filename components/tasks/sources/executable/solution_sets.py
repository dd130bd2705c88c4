"""Puzzles of which all solutions are asked for (ToTRL)."""

from __future__ import annotations

import random
from typing import Literal, Self

from pydantic import Field, model_validator

from components.contract.errors import InputError
from components.tasks.domains.made import Made, MadeConfig, made_rows
from components.tasks.domains.puzzles import BETWEEN, draw_words, queens, sums
from components.tasks.source import SourceRequest, SourceRows

VERIFIER = "solution_sets"
BASE = 5
"""Base of the sums, whose digits are 0 to 4: a small tree, and few solutions."""


class SolutionSetsConfig(MadeConfig):
    """Which puzzles, and how many solutions they have."""

    puzzles: tuple[Literal["queens", "sums"], ...] = Field(default=("queens",), min_length=1)
    """Kinds of puzzles, equally frequent: another kind is a shift of domain."""
    min_size: int = Field(default=4, ge=4, le=6)
    """Smallest board."""
    max_size: int = Field(default=5, ge=4, le=6)
    """Largest board; 4 and 5 have 2 and 10 solutions before cells are blocked."""
    letters: int = Field(default=4, ge=2, le=5)
    """Most different letters of a sum."""
    min_solutions: int = Field(default=1, ge=1)
    """Fewest solutions."""
    max_solutions: int = Field(default=3, ge=1)
    """Most solutions: with the size the knob of difficulty."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.puzzles == ("queens",) and self.max_size == 4 and self.min_solutions > 2:
            raise InputError("source solution_sets: a board of 4 has 2 solutions at most; lower min_solutions")
        return self

    def verifiers(self) -> tuple[str, ...]:
        """Return the verifier of all rows."""
        return (VERIFIER,)


def solution_sets(request: SourceRequest, *, config: SolutionSetsConfig) -> SourceRows:
    """Show `queens 5 not 13 24`, blocked cells by row and column, or `sum ab+ba=cc`, digits 0 to 4.

    The answer is all solutions, in any order: `24135,53142`. A solution is the queens' columns row by row, or the
    digits of the letters in alphabetical order. `data["solutions"]` lists them. Parts share no puzzle.
    Source: ToTRL, whose puzzles are sudoku and alphametics; reward `exact_set` or this verifier.
    """
    return made_rows("solution_sets", request, config, VERIFIER, lambda rng: _draw(config, rng))


def _draw(config: SolutionSetsConfig, rng: random.Random) -> Made | None:
    kind = rng.choice(config.puzzles)
    prompt, solutions = _queens(config, rng) if kind == "queens" else _sum(config, rng)
    if not config.min_solutions <= len(solutions) <= config.max_solutions:
        return None
    return Made(prompt, prompt, BETWEEN.join(solutions), {"solutions": solutions, "puzzle": kind})


def _queens(config: SolutionSetsConfig, rng: random.Random) -> tuple[str, list[str]]:
    size = rng.randint(config.min_size, config.max_size)
    cells = [(row, column) for row in range(1, size + 1) for column in range(1, size + 1)]
    blocked = sorted(rng.sample(cells, rng.randint(1, 2 * size - 4)))
    told = " ".join(f"{row}{column}" for row, column in blocked)
    return f"queens {size} not {told}", queens(size, set(blocked))


def _sum(config: SolutionSetsConfig, rng: random.Random) -> tuple[str, list[str]]:
    words = draw_words(config.letters, 2, rng)
    return f"sum {words[0]}+{words[1]}={words[2]}", sums(words, BASE)
