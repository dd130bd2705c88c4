"""Programs of source python_programs in one of several styles: writers whose habits differ."""

from __future__ import annotations

import random
import re
from typing import Literal

from pydantic import Field

from components.contract.errors import InputError
from components.contract.params import Params
from components.tasks.answers import ANSWER_OPEN
from components.tasks.domains.python_steps import ENTRY, NAME, STEPS, program
from components.tasks.item import Item

VARIABLE = re.compile(rf"\b{NAME}\b")
TOLD = "numbers"
"""The variable, where names say something."""


class StyledProgramsConfig(Params):
    """The writer's habit, and how careful it is."""

    style: Literal["plain", "comments", "names", "short"] = "plain"
    """plain: a line for each step. comments: each with its step behind it. names: the variable is called `numbers`.
    short: one expression."""
    error_rate: float = Field(default=0.0, ge=0, le=1)
    """Probability that a step is taken for another of its kind."""


def styled_programs(item: Item, rng: random.Random, *, config: StyledProgramsConfig) -> str:
    """Write `<answer>` and the program: in style `short`, `def f(v):⏎ return sum(sorted(v))`."""
    steps = item.data.get("steps")
    if not (isinstance(steps, list) and steps and all(words in STEPS for words in steps)):
        raise InputError(f"demonstrator styled_programs: item {item.id} is not of source python_programs")
    written = [_other(words, rng) if rng.random() < config.error_rate else words for words in steps]
    if config.style == "short":
        return f"{ANSWER_OPEN}def {ENTRY}({NAME}):\n return {expression(written)}"
    text = program(written)
    if config.style == "comments":
        head, *lines = text.split("\n")
        text = "\n".join([head, *(f"{line} # {words}" for line, words in zip(lines, written, strict=True))])
    return f"{ANSWER_OPEN}{VARIABLE.sub(TOLD, text) if config.style == 'names' else text}"


def expression(steps: list[str]) -> str:
    """Return the steps as one expression of the variable; each is a call, a slice or a list, so no brackets are due."""
    made = NAME
    for words in steps:
        before, _, after = VARIABLE.sub("\0", STEPS[words].code).partition("\0")
        made = f"{before}{made}{after}"
    return made


def _other(words: str, rng: random.Random) -> str:
    alike = [name for name, step in STEPS.items() if step.ends == STEPS[words].ends and name != words]
    return rng.choice(alike)
