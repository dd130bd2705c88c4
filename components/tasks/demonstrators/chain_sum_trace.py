"""Worked traces for reasoning-gym's chain_sum: running sums, right or sloppy."""

from __future__ import annotations

import random
import re

from pydantic import Field

from components.contract.errors import InputError
from components.contract.params import Params
from components.tasks.answers import ANSWER_OPEN
from components.tasks.item import Item

THINK_OPEN = "<think>"
EXPRESSION = re.compile(r"-?\d+( [+-] -?\d+)*")


class ChainSumTraceConfig(Params):
    """How careful the worker is, and how the trace is written."""

    step_error_rate: float = Field(default=0.0, ge=0, le=1)
    """Probability that a step's result is wrong; later steps go on from the wrong result, as a person would."""
    max_step_error: int = Field(default=2, ge=1)
    """Largest size of a wrong step's error."""
    terms_per_step: int = Field(default=1, ge=1)
    """Numbers that a step adds: more make the trace shorter and each step harder."""
    markup: bool = True
    """Whether thought and answer follow their marks; without marks the answer is on its own line."""


def chain_sum_trace(item: Item, rng: random.Random, *, config: ChainSumTraceConfig) -> str:
    """Work an expression out from left to right: `<think>4+7=11 11-3=8<answer>8`.

    With two numbers a step: `<think>4+7-3=8 8+5-2=11<answer>11`. The answer is always the last result of the trace, so
    sloppy traces are consistent and mostly wrong.
    """
    numbers, signs = _terms(item)
    total, size = numbers[0], config.terms_per_step
    changes = list(zip(signs, numbers[1:], strict=True))
    steps = []
    for added in (changes[start : start + size] for start in range(0, len(changes), size)):
        result = total + sum(number if sign == "+" else -number for sign, number in added)
        if rng.random() < config.step_error_rate:
            result += rng.choice((-1, 1)) * rng.randint(1, config.max_step_error)
        steps.append(f"{total}{''.join(f'{sign}{number}' for sign, number in added)}={result}")
        total = result
    trace = " ".join(steps)
    return f"{THINK_OPEN}{trace}{ANSWER_OPEN}{total}" if config.markup else f"{trace}\n{total}"


def _terms(item: Item) -> tuple[list[int], list[str]]:
    metadata = item.data.get("metadata")
    expression = metadata.get("expression") if isinstance(metadata, dict) else None
    if not isinstance(expression, str) or not EXPRESSION.fullmatch(expression):
        raise InputError(f"demonstrator chain_sum_trace: item {item.id} is no chain_sum (expression: {expression!r})")
    parts = expression.split(" ")
    return [int(part) for part in parts[::2]], parts[1::2]
