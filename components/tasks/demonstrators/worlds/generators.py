"""Words of source generators, rule by rule; shirkers stop after the first."""

from __future__ import annotations

import random

from pydantic import Field

from components.contract.errors import InputError
from components.contract.params import Params
from components.tasks.answers import ANSWER_OPEN
from components.tasks.demonstrators.chain_sum_trace import THINK_OPEN
from components.tasks.item import Item
from components.tasks.mutations import mutate


class GeneratorsTraceConfig(Params):
    """How careful the worker is, and whether the steps are written."""

    think: bool = True
    """Whether the words between precede the last: `<think>hcba<answer>adcb`; one rule has none between."""
    shirk: float = Field(default=0.0, ge=0, le=1)
    """Probability that only the first rule is applied, or none where there is but one."""
    error_rate: float = Field(default=0.0, ge=0, le=1)
    """Probability that the answer is wrong in one letter."""


def generators(item: Item, rng: random.Random, *, config: GeneratorsTraceConfig) -> str:
    """Write the word after each rule, the last as the answer."""
    word, steps = item.data.get("word"), item.data.get("steps")
    if not (isinstance(word, str) and isinstance(steps, list) and steps):
        raise InputError(f"demonstrator generators: item {item.id} is not of source generators (steps: {steps!r:.80})")
    if rng.random() < config.shirk:
        return f"{ANSWER_OPEN}{steps[0] if len(steps) > 1 else word}"
    answer = mutate(steps[-1], rng) if rng.random() < config.error_rate else steps[-1]
    thought = f"{THINK_OPEN}{' '.join(steps[:-1])}" if config.think and len(steps) > 1 else ""
    return f"{thought}{ANSWER_OPEN}{answer}"
