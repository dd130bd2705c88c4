"""Worked traces for chain_sum that go over the same steps again: a verbose worker."""

from __future__ import annotations

import random

from pydantic import Field

from components.tasks.answers import ANSWER_OPEN
from components.tasks.demonstrators.chain_sum_trace import THINK_OPEN, ChainSumTraceConfig, chain_sum_trace
from components.tasks.item import Item


class RepeatedTraceConfig(ChainSumTraceConfig):
    """As chain_sum_trace, and how often the steps are written."""

    repeats: int = Field(default=2, ge=1)
    """Times that the steps are written; the answer follows the last."""


def repeated_trace(item: Item, rng: random.Random, *, config: RepeatedTraceConfig) -> str:
    """Work an expression out, write the same steps again, then answer: `<think>4+7=11 4+7=11<answer>11`."""
    plain = ChainSumTraceConfig(
        step_error_rate=config.step_error_rate,
        max_step_error=config.max_step_error,
        terms_per_step=config.terms_per_step,
    )
    steps, _, answer = chain_sum_trace(item, rng, config=plain).removeprefix(THINK_OPEN).partition(ANSWER_OPEN)
    trace = " ".join([steps] * config.repeats)
    return f"{THINK_OPEN}{trace}{ANSWER_OPEN}{answer}" if config.markup else f"{trace}\n{answer}"
