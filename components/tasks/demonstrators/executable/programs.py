"""Programs of source programs, with the stack after each operation, or at once."""

from __future__ import annotations

import random

from pydantic import Field

from components.contract.errors import InputError
from components.contract.params import Params
from components.tasks.answers import ANSWER_OPEN
from components.tasks.demonstrators.chain_sum_trace import THINK_OPEN
from components.tasks.domains.stack import is_program, trace
from components.tasks.item import Item


class ProgramsDemonstratorConfig(Params):
    """How careful the programmer is, and what is written."""

    error_rate: float = Field(default=0.0, ge=0, le=1)
    """Probability that an operation is replaced by another of the item's; the thought goes on from there."""
    think: bool = True
    """Whether the stack of the first pair precedes the answer."""


def programs(item: Item, rng: random.Random, *, config: ProgramsDemonstratorConfig) -> str:
    """Write `<think>o 3 4 3 + 3 7 + 10<answer>o++`: each operation with the stack of the first shown pair behind it."""
    tests, shown, known = (item.data.get(key) for key in ("tests", "shown", "operations"))
    if not (is_program(item.answer) and tests and shown and known):
        raise InputError(f"demonstrator programs: item {item.id} is not of source programs (answer: {item.answer!r})")
    written = "".join(
        rng.choice([other for other in known if other != operation] or [operation])
        if rng.random() < config.error_rate
        else operation
        for operation in item.answer
    )
    if not config.think:
        return f"{ANSWER_OPEN}{written}"
    stacks = trace(written, tuple(tests[shown[0]][0]))
    steps = [f"{operation} {' '.join(map(str, stack))}" for operation, stack in zip(written, stacks, strict=True)]
    return f"{THINK_OPEN}{' '.join(steps)}{ANSWER_OPEN}{written}"
