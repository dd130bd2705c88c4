"""Answers to sums of fractions, in a form of the writer's own."""

from __future__ import annotations

import random
from fractions import Fraction

from pydantic import Field

from components.contract.errors import InputError
from components.contract.params import Params
from components.tasks.answers import ANSWER_OPEN
from components.tasks.domains.worlds.fractions import FORMS, Form, written
from components.tasks.item import Item
from components.tasks.verifiers.numeric import parse_number


class FormsDemonstratorConfig(Params):
    """Which forms are written, and how carefully."""

    forms: tuple[Form, ...] = Field(default=FORMS, min_length=1)
    """Forms of the answers, each as often, whatever the form of the reference."""
    error_rate: float = Field(default=0.0, ge=0, le=1)
    """Probability that the value is another one: a numerator one or two away."""
    markup: bool = True
    """Whether the answer follows its mark."""


def forms(item: Item, rng: random.Random, *, config: FormsDemonstratorConfig) -> str:
    """Write `<answer>62.5%` to `3/8+2/8`."""
    value = parse_number(str(item.data.get("value")))
    if value is None or not 0 < value < 1:
        raise InputError(
            f"demonstrator forms: item {item.id} is not of source forms (value: {item.data.get('value')!r})"
        )
    if rng.random() < config.error_rate:
        value = _other(value, rng)
    return f"{ANSWER_OPEN if config.markup else ''}{written(value, rng.choice(config.forms))}"


def _other(value: Fraction, rng: random.Random) -> Fraction:
    """Return another value between 0 and 1 of the same denominator, or of twice that where there is none."""
    bottom = value.denominator if value.denominator > 2 else 2 * value.denominator
    top = int(value * bottom)
    return Fraction(rng.choice([near for near in range(top - 2, top + 3) if 0 < near < bottom and near != top]), bottom)
