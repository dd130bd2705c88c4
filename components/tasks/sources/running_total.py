"""Sums that go on over several turns: what is 12 + 7, and then add 5.

The smallest conversation whose last turn needs an earlier one: a later question names only a number, to be added to
the total that the policy itself gave before.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, ClassVar

from pydantic import Field

from components.contract.errors import InputError
from components.contract.messages import Message
from components.tasks.seeds import derive_rng
from components.tasks.source import SourceConfig, SourceRequest, SourceRow, SourceRows

VERIFIER = "numeric"


class RunningTotalConfig(SourceConfig):
    """How many turns, and how large the numbers are."""

    endless: ClassVar[bool] = True
    turns: int = Field(default=2, ge=2, le=20)
    """Turns that the policy writes; the answer is the total after the last."""
    min_number: int = Field(default=1, ge=0)
    """Smallest number that is named."""
    max_number: int = Field(default=20, ge=1)
    """Largest number that is named: with `turns` the knob of difficulty."""
    subtract: bool = False
    """Whether later turns may also subtract, at even odds."""
    seed: int | None = None
    """Seed of the numbers; the stage's own when none is given."""

    def verifiers(self) -> tuple[str, ...]:
        """Return the verifier of all rows."""
        return (VERIFIER,)


def running_total(request: SourceRequest, *, config: RunningTotalConfig) -> SourceRows:
    """Generate conversations without end; a turn's question is "Add 5." or "Subtract 5.", the first is "12 + 7?"."""
    if config.min_number > config.max_number:
        raise InputError(
            f"source running_total: min_number {config.min_number} is above max_number {config.max_number}"
        )
    seed = request.seed if config.seed is None else config.seed
    origin = {"source": "running_total", "seed": seed, "config": config.model_dump(mode="json", exclude={"seed"})}
    return SourceRows(_rows(config, derive_rng(seed, "running_total"), request.limit), origin)


def _rows(config: RunningTotalConfig, rng: random.Random, limit: int) -> Iterator[SourceRow]:
    for index in range(limit):
        first = rng.randint(config.min_number, config.max_number)
        changes = [_change(config, rng, turn) for turn in range(config.turns)]
        messages = [Message(role="user", content=f"{first} + {changes[0]}?")]
        for change in changes[1:]:
            messages.append(Message(role="assistant", content=None))
            messages.append(Message(role="user", content=f"{'Add' if change >= 0 else 'Subtract'} {abs(change)}."))
        data: dict[str, Any] = {"start": first, "changes": changes}
        answer = str(first + sum(changes))
        where = f"running_total[{index}]"
        yield SourceRow(where, messages=tuple(messages), answer=answer, verifier=VERIFIER, data=data)


def _change(config: RunningTotalConfig, rng: random.Random, turn: int) -> int:
    number = rng.randint(config.min_number, config.max_number)
    return -number if turn and config.subtract and rng.random() < 0.5 else number
