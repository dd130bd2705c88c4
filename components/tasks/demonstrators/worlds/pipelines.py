"""Plans of source pipelines, with the values between or without, some of them careless."""

from __future__ import annotations

import random

from pydantic import Field

from components.contract.errors import InputError
from components.contract.params import Params
from components.tasks.answers import ANSWER_OPEN
from components.tasks.demonstrators.chain_sum_trace import THINK_OPEN
from components.tasks.domains.worlds.plans import STEPS, execute, write_value
from components.tasks.item import Item


class PipelinesTraceConfig(Params):
    """How careful the planner is, and whether the values of the first case are written."""

    think: bool = False
    """Whether the first word's values precede the plan: `<think>abca abc 3<answer>uniq len`."""
    step_error_rate: float = Field(default=0.0, ge=0, le=1)
    """Probability that a step is any other function, which mostly makes the plan one that cannot be executed."""


def pipelines(item: Item, rng: random.Random, *, config: PipelinesTraceConfig) -> str:
    """Write the reference plan."""
    cases, plan = item.data.get("cases"), item.answer.split()
    if not (isinstance(cases, list) and cases and plan and set(plan) <= set(STEPS)):
        raise InputError(f"demonstrator pipelines: item {item.id} is not of source pipelines (cases: {cases!r:.80})")
    word = str(cases[0][0])
    values = [word, *map(write_value, execute(plan, word))]
    written = [
        rng.choice([name for name in STEPS if name != step]) if rng.random() < config.step_error_rate else step
        for step in plan
    ]
    thought = f"{THINK_OPEN}{' '.join(values)}" if config.think else ""
    return f"{thought}{ANSWER_OPEN}{' '.join(written)}"
