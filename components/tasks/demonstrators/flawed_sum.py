"""A worker of sums who makes flaws of three kinds: another term, the other sign, a slip."""

from __future__ import annotations

import random

from pydantic import Field

from components.contract.errors import InputError
from components.contract.params import Params
from components.tasks.answers import ANSWER_OPEN
from components.tasks.demonstrators.chain_sum_trace import THINK_OPEN
from components.tasks.domains.sum_flaws import KINDS, SIGN, SLIP, TERM, Step, terms_of
from components.tasks.item import Item


class FlawedSumConfig(Params):
    """How often a step has a flaw."""

    flaw_rate: float = Field(default=0.3, ge=0, le=1)
    """Probability that a step has one; its kind is drawn evenly."""


def flawed_sum(item: Item, rng: random.Random, *, config: FlawedSumConfig) -> str:
    """Work a chain_sum out: `<think>4+7=11 11-3=8<answer>8`; steps go on from what was written."""
    found = terms_of(item)
    if found is None:
        raise InputError(f"demonstrator flawed_sum: item {item.id} is no chain_sum (data.metadata.expression)")
    total, due = found
    steps = []
    for sign, number in due:
        kind = rng.choice(KINDS) if rng.random() < config.flaw_rate else ""
        if kind == SIGN:
            sign = "-" if sign == "+" else "+"
        if kind == TERM:
            number = rng.choice([other for other in range(1, 10) if other != number])
        step = Step(total, sign, number, 0)
        total = step.true + (rng.choice((-2, -1, 1, 2)) if kind == SLIP else 0)
        steps.append(str(step._replace(result=total)))
    return f"{THINK_OPEN}{' '.join(steps)}{ANSWER_OPEN}{total}"
