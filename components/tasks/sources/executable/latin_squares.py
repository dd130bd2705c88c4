"""Latin squares with holes to be filled: a search task whose tree is larger than countdown's (backtracking-warmup)."""

from __future__ import annotations

import random
from typing import Self

from pydantic import Field, model_validator

from components.contract.errors import InputError
from components.tasks.domains.latin import draw_square, show
from components.tasks.domains.made import Made, MadeConfig, made_rows
from components.tasks.source import SourceRequest, SourceRows

VERIFIER = "latin_squares"


class LatinSquaresConfig(MadeConfig):
    """How large squares are, and how many holes they have."""

    size: int = Field(default=4, ge=3, le=6)
    """Rows, columns and numbers: another size is a shift of domain."""
    min_holes: int = Field(default=4, ge=1)
    """Fewest holes."""
    max_holes: int = Field(default=6, ge=1)
    """Most holes: the knob of difficulty."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.max_holes > self.size**2:
            raise InputError(
                f"source latin_squares: max_holes {self.max_holes} is above the {self.size**2} cells of the square"
            )
        return self

    def verifiers(self) -> tuple[str, ...]:
        """Return the verifier of all rows."""
        return (VERIFIER,)


def latin_squares(request: SourceRequest, *, config: LatinSquaresConfig) -> SourceRows:
    """Show `1_34/34_2/...`; the answer is the numbers of the holes in the order of reading, `214`.

    Any filling that makes a Latin square is right. `data["puzzle"]` is the prompt's square. Parts share no puzzle.
    Source: backtracking-warmup, whose large tree is sudoku's.
    """
    return made_rows("latin_squares", request, config, VERIFIER, lambda rng: _draw(config, rng))


def _draw(config: LatinSquaresConfig, rng: random.Random) -> Made:
    square = draw_square(config.size, rng)
    cells = [(row, column) for row in range(config.size) for column in range(config.size)]
    holes = sorted(rng.sample(cells, rng.randint(config.min_holes, config.max_holes)))
    puzzle = show(square, set(holes))
    answer = "".join(str(square[row][column]) for row, column in holes)
    return Made(puzzle, puzzle, answer, {"puzzle": puzzle, "holes": len(holes)})
