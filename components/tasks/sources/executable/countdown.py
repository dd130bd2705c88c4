"""Numbers to be joined to a target, with short prompts: the small search task (RLSP, backtracking-warmup).

reasoning-gym's task countdown has the same game. Its generator takes 18 ms a row, its scorer 5 to 16 ms an answer, both
in sympy, and its prompts have 300 characters; rows of either are solved by the same demonstrators and judged alike.
"""

from __future__ import annotations

import random
from typing import Self

from pydantic import Field, model_validator

from components.contract.errors import InputError
from components.tasks.domains.countdown import leaves
from components.tasks.domains.made import Made, MadeConfig, made_rows
from components.tasks.source import SourceRequest, SourceRows

VERIFIER = "countdown"
TASK = "countdown"


class CountdownConfig(MadeConfig):
    """How many numbers there are, and how large they are."""

    min_numbers: int = Field(default=3, ge=2, le=6)
    """Fewest numbers."""
    max_numbers: int = Field(default=3, ge=2, le=6)
    """Most numbers: the knob of difficulty."""
    max_value: int = Field(default=9, ge=2, le=99)
    """Largest number; with `max_target` a shift of domain."""
    max_target: int = Field(default=50, ge=2, le=9_999)
    """Largest target."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.max_target < self.max_value:
            raise InputError(
                f"source countdown: max_target {self.max_target} is below max_value {self.max_value}, which leaves "
                "few games; raise it"
            )
        return self

    def verifiers(self) -> tuple[str, ...]:
        """Return the verifier of all rows."""
        return (VERIFIER,)


def countdown(request: SourceRequest, *, config: CountdownConfig) -> SourceRows:
    """Show `3 7 2=23`; the answer is an expression of all the numbers with that value, `3*7+2`.

    The target is that of a random leaf of the search with whole results; `data["metadata"]` holds numbers and target as
    reasoning-gym's scorer reads them, too. Parts share no set of numbers with its target.
    """
    return made_rows("countdown", request, config, VERIFIER, lambda rng: _draw(config, rng))


def _draw(config: CountdownConfig, rng: random.Random) -> Made | None:
    numbers = [rng.randint(1, config.max_value) for _ in range(rng.randint(config.min_numbers, config.max_numbers))]
    leaf = next(leaves(numbers, rng))
    target = int(leaf.value)
    if not 1 <= target <= config.max_target or target in numbers:
        return None
    metadata = {"source_dataset": TASK, "numbers": numbers, "target": target, "expression": leaf.expression}
    key = f"{sorted(numbers)}={target}"
    data = {"task": TASK, "config": {}, "metadata": metadata, "steps": list(leaf.steps)}
    return Made(key, f"{' '.join(map(str, numbers))}={target}", leaf.expression, data)
