"""Worked sums in other notations than chain_sum_trace's equations: the same steps, told apart by their form."""

from __future__ import annotations

import random
import re
from typing import Literal

from components.contract.errors import InputError
from components.tasks.answers import ANSWER_OPEN
from components.tasks.demonstrators.chain_sum_trace import THINK_OPEN, ChainSumTraceConfig, chain_sum_trace
from components.tasks.item import Item

STEP = re.compile(r"(-?\d+)([+-])(-?\d+)=(-?\d+)")


class SumNotationConfig(ChainSumTraceConfig):
    """As chain_sum_trace, and how a step is written."""

    notation: Literal["totals", "arrows"] = "totals"
    """totals: `4 11 8`, each total alone. arrows: `4+7>11-3>8`, one line in which no total is written twice."""


def sum_notation(item: Item, rng: random.Random, *, config: SumNotationConfig) -> str:
    """Work an expression out as chain_sum_trace does, right or sloppy, and write it in another notation."""
    plain = ChainSumTraceConfig(step_error_rate=config.step_error_rate, max_step_error=config.max_step_error)
    steps, _, answer = chain_sum_trace(item, rng, config=plain).removeprefix(THINK_OPEN).partition(ANSWER_OPEN)
    parts = [match.groups() for match in STEP.finditer(steps)]
    if not parts:
        raise InputError(f"demonstrator sum_notation: item {item.id} has one term, and no step")
    first = parts[0][0]
    if config.notation == "totals":
        trace = " ".join([first, *(total for _, _, _, total in parts)])
    else:
        trace = first + "".join(f"{sign}{number}>{total}" for _, sign, number, total in parts)
    return f"{THINK_OPEN}{trace}{ANSWER_OPEN}{answer}" if config.markup else f"{trace}\n{answer}"
