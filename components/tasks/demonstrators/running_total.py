"""Worked turns of source running_total: every turn's total, right or sloppy."""

from __future__ import annotations

import random

from pydantic import Field

from components.contract.errors import InputError
from components.contract.params import Params
from components.tasks.answers import ANSWER_OPEN
from components.tasks.demonstrators.chain_sum_trace import THINK_OPEN
from components.tasks.item import Item


class RunningTotalTraceConfig(Params):
    """How careful the worker is, and how a turn is written."""

    step_error_rate: float = Field(default=0.0, ge=0, le=1)
    """Probability that a turn's total is wrong; later turns go on from the wrong one."""
    max_step_error: int = Field(default=2, ge=1)
    """Largest size of a wrong turn's error."""
    think: bool = True
    """Whether the sum precedes the answer: `<think>12+7=19<answer>19`, else `<answer>19`."""


def running_total(item: Item, rng: random.Random, *, config: RunningTotalTraceConfig) -> tuple[str, ...]:
    """Write all turns of an item; the last one's answer follows from the turns before, so sloppy ones agree."""
    total, changes = item.data.get("start"), item.data.get("changes")
    if not (isinstance(total, int) and isinstance(changes, list) and all(isinstance(n, int) for n in changes)):
        raise InputError(f"demonstrator running_total: item {item.id} is not of source running_total")
    turns = []
    for change in changes:
        result = total + change
        if rng.random() < config.step_error_rate:
            result += rng.choice((-1, 1)) * rng.randint(1, config.max_step_error)
        thought = f"{THINK_OPEN}{total}{change:+d}={result}" if config.think else ""
        turns.append(f"{thought}{ANSWER_OPEN}{result}")
        total = result
    return tuple(turns)
