"""Programs of source python_programs, right or with a step forgotten or mistaken."""

from __future__ import annotations

import random

from pydantic import Field

from components.contract.errors import InputError
from components.contract.params import Params
from components.tasks.answers import ANSWER_OPEN
from components.tasks.domains.python_steps import STEPS, program
from components.tasks.item import Item


class PythonProgramsDemonstratorConfig(Params):
    """How careful the programmer is."""

    error_rate: float = Field(default=0.0, ge=0, le=1)
    """Probability that a step is taken for another of its kind."""


def python_programs(item: Item, rng: random.Random, *, config: PythonProgramsDemonstratorConfig) -> str:
    """Write `<answer>` and the program, a line for each step."""
    steps = item.data.get("steps")
    if not (isinstance(steps, list) and steps and all(words in STEPS for words in steps)):
        raise InputError(f"demonstrator python_programs: item {item.id} is not of source python_programs")
    written = [_other(words, rng) if rng.random() < config.error_rate else words for words in steps]
    return f"{ANSWER_OPEN}{program(written)}"


def _other(words: str, rng: random.Random) -> str:
    alike = [name for name, step in STEPS.items() if step.ends == STEPS[words].ends and name != words]
    return rng.choice(alike)
