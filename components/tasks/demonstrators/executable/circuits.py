"""Circuits of source circuits, right or with a gate or an input mistaken."""

from __future__ import annotations

import random

from pydantic import Field

from components.contract.errors import InputError
from components.contract.params import Params
from components.tasks.answers import ANSWER_OPEN
from components.tasks.domains.circuits import GATES
from components.tasks.item import Item


class CircuitsDemonstratorConfig(Params):
    """How careful the engineer is."""

    error_rate: float = Field(default=0.0, ge=0, le=1)
    """Probability that a gate is taken for another one."""


def circuits(item: Item, rng: random.Random, *, config: CircuitsDemonstratorConfig) -> str:
    """Write `<answer>c&f|h`, or the Verilog module."""
    if not isinstance(item.data.get("table"), str):
        raise InputError(f"demonstrator circuits: item {item.id} is not of source circuits (no data.table)")
    written = "".join(
        rng.choice(GATES.replace(sign, "")) if sign in GATES and rng.random() < config.error_rate else sign
        for sign in item.answer
    )
    return f"{ANSWER_OPEN}{written}"
