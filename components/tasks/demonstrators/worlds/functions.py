"""Worked calls of source functions: from the innermost out, or straight to the value."""

from __future__ import annotations

import random

from pydantic import Field

from components.contract.errors import InputError
from components.contract.params import Params
from components.tasks.answers import ANSWER_OPEN
from components.tasks.demonstrators.chain_sum_trace import THINK_OPEN
from components.tasks.item import Item
from components.tasks.mutations import mutate


class FunctionsTraceConfig(Params):
    """How careful the worker is, and whether the steps are written."""

    think: bool = True
    """Whether the calls precede the value: `<think>K(ab)=ba C(ba)=bb<answer>bb`, else `<answer>bb`."""
    error_rate: float = Field(default=0.0, ge=0, le=1)
    """Probability that the last value is wrong in one letter, the steps before being right."""


def functions(item: Item, rng: random.Random, *, config: FunctionsTraceConfig) -> str:
    """Write the value of an item's call."""
    steps = item.data.get("steps")
    if not (isinstance(steps, list) and steps and all(isinstance(step, str) and "=" in step for step in steps)):
        raise InputError(f"demonstrator functions: item {item.id} is not of source functions (steps: {steps!r:.80})")
    value = item.answer
    if rng.random() < config.error_rate:
        value = mutate(value, rng)
        steps = [*steps[:-1], f"{steps[-1].partition('=')[0]}={value}"]
    thought = f"{THINK_OPEN}{' '.join(steps)}" if config.think else ""
    return f"{thought}{ANSWER_OPEN}{value}"
