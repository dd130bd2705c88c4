"""Words of source soft_constraints, worked out from the end in a thought or written at once."""

from __future__ import annotations

import random

from pydantic import Field

from components.contract.errors import InputError
from components.contract.params import Params
from components.tasks.answers import ANSWER_OPEN
from components.tasks.demonstrators.chain_sum_trace import THINK_OPEN
from components.tasks.domains.worlds.chained_words import ALPHABET, values_of, word_of
from components.tasks.item import Item


class SoftConstraintsDemonstratorConfig(Params):
    """Whether the writer thinks, and how careful it is."""

    think: bool = True
    """Whether a thought comes first: from the last letter to the first, the given letter and what it becomes."""
    step_error_rate: float = Field(default=0.0, ge=0, le=1)
    """Probability that a letter is wrong; those before it go on from there, so that it breaks one constraint."""
    letter_error_rate: float = Field(default=0.0, ge=0, le=1)
    """Probability that a letter of the answer is another one than was worked out: it breaks up to two."""


def soft_constraints(item: Item, rng: random.Random, *, config: SoftConstraintsDemonstratorConfig) -> str:
    """Write `<think>eebadd<answer>dae` for `chain: dbe` (e is e, b becomes a, d becomes d), or `<answer>dae`."""
    given, letters = item.data.get("given"), item.data.get("letters")
    known = type(letters) is int and 2 <= letters <= len(ALPHABET) and isinstance(given, str)
    values = values_of(str(given), letters) if known and isinstance(letters, int) else None
    if not values or not isinstance(letters, int):
        raise InputError(f"demonstrator soft_constraints: item {item.id} is not of source soft_constraints")
    thought, total = [], 0
    for value in reversed(values):
        total = (total + value + _slip(rng, config.step_error_rate, letters)) % letters
        thought.append(total)
    answer = [(one + _slip(rng, config.letter_error_rate, letters)) % letters for one in reversed(thought)]
    steps = word_of([one for step in zip(reversed(values), thought, strict=True) for one in step])
    return f"{f'{THINK_OPEN}{steps}' if config.think else ''}{ANSWER_OPEN}{word_of(answer)}"


def _slip(rng: random.Random, rate: float, letters: int) -> int:
    """Return by how much a letter is off."""
    return rng.randrange(1, letters) if rng.random() < rate else 0
