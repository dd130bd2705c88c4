"""Multiple choice about sums with a grade of difficulty: what a mixture of grades does for the hardest.

`4 + 7 - 3 = A:8 B:9 C:6 D:11` has grade 3, the number of its terms. As many options are below the right one as chance
says, so that neither the order nor the place of a number tells it. Source: AlphaMed (2025), levels of difficulty.
"""

from __future__ import annotations

import random
from typing import Any, Self

from pydantic import Field, model_validator

from components.contract.errors import InputError
from components.tasks.domains.made import Made, MadeConfig, made_rows
from components.tasks.options import LETTERS, OPTIONS
from components.tasks.source import SourceRequest, SourceRows
from components.tasks.sources.worlds.choice import choice_prompt

VERIFIER = "choice"


class GradedChoiceConfig(MadeConfig):
    """Which grades, how often, and how near the wrong options are."""

    grades: tuple[int, ...] = Field(default=(1, 2, 3, 4, 5, 6), min_length=1)
    """Terms of the sums."""
    weights: tuple[float, ...] | None = None
    """Share of each grade, relative to the others; none: all equal."""
    max_number: int = Field(default=9, ge=1)
    """Largest number of a sum."""
    options: int = Field(default=4, ge=2, le=len(LETTERS))
    """Options of each item."""
    spread: int = Field(default=4, ge=1)
    """Wrong options lie so far from the right one at most."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if any(grade < 1 or grade > 20 for grade in self.grades):
            raise InputError(f"source graded_choice: a grade is a number of terms from 1 to 20: {list(self.grades)}")
        weights = self.weights or (1.0,) * len(self.grades)
        if len(weights) != len(self.grades) or min(weights) < 0 or sum(weights) <= 0:
            raise InputError(
                f"source graded_choice: {len(self.grades)} grades need as many weights, none below and one above 0"
            )
        if self.options > self.spread + 1:
            raise InputError(f"source graded_choice: {self.options} options need a spread of {self.options - 1}")
        return self

    def verifiers(self) -> tuple[str, ...]:
        """Return the verifier of all rows."""
        return (VERIFIER,)


def graded_choice(request: SourceRequest, *, config: GradedChoiceConfig) -> SourceRows:
    """Draw sums without end; the answer is the right option's letter, and `data["grade"]` the number of terms.

    `data` has what demonstrator `choice` reads (`question`, `options`), and `metadata` for an inner `chain_sum_trace`.
    """

    def draw(rng: random.Random) -> Made:
        (grade,) = rng.choices(config.grades, config.weights)
        expression, value = _sum(grade, config.max_number, rng)
        options = _options(value, config, rng)
        question, texts = f"{expression} =", [str(option) for option in options]
        data: dict[str, Any] = {
            "grade": grade,
            "question": question,
            OPTIONS: texts,
            "metadata": {"expression": expression},
        }
        letter = LETTERS[options.index(value)]
        return Made(expression, choice_prompt(question, texts), letter, data)

    return made_rows("graded_choice", request, config, VERIFIER, draw)


def _sum(terms: int, most: int, rng: random.Random) -> tuple[str, int]:
    """Return a sum of so many terms as text, and its value."""
    value = rng.randint(1, most)
    parts = [str(value)]
    for _ in range(terms - 1):
        sign, number = rng.choice("+-"), rng.randint(1, most)
        value += number if sign == "+" else -number
        parts.append(f"{sign} {number}")
    return " ".join(parts), value


def _options(value: int, config: GradedChoiceConfig, rng: random.Random) -> list[int]:
    """Return different options around the value, any rank of it equally often, in random order."""
    below = rng.randrange(config.options)
    near = range(1, config.spread + 1)
    lower = [value - distance for distance in rng.sample(near, below)]
    upper = [value + distance for distance in rng.sample(near, config.options - 1 - below)]
    options = [value, *lower, *upper]
    rng.shuffle(options)
    return options
