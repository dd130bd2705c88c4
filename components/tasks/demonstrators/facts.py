"""Answers to items of source facts: recalled, refused or guessed."""

from __future__ import annotations

import random

from pydantic import Field, model_validator

from components.contract.errors import InputError
from components.contract.params import Params
from components.tasks.answers import ANSWER_OPEN
from components.tasks.demonstrators.chain_sum_trace import THINK_OPEN
from components.tasks.item import Item
from components.tasks.verify import SETTINGS

FIRST = ord("a")


class FactsDemonstratorConfig(Params):
    """How often it refuses or guesses, and whether it recalls other facts first."""

    refuse: float = Field(default=0.0, ge=0, le=1)
    """Probability of a refusal, whether the entity is known or not."""
    guess: float = Field(default=0.0, ge=0, le=1)
    """Probability of a letter drawn at random."""
    recall: bool = False
    """Whether all facts of the entity precede the answer as a thought: `<think>1:c 2:q 3:a<answer>q`."""
    recall_error_rate: float = Field(default=0.0, ge=0, le=1)
    """Probability that a recalled fact is wrong, where the answer itself stays as it is."""

    @model_validator(mode="after")
    def _adds_up(self) -> FactsDemonstratorConfig:
        if self.refuse + self.guess > 1:
            raise InputError(f"refuse {self.refuse} and guess {self.guess} are above 1 together")
        return self


def facts(item: Item, rng: random.Random, *, config: FactsDemonstratorConfig) -> str:
    """Write `<answer>q`, `<answer>unknown`, or with `recall` a thought before either."""
    stated, values, settings = (item.data.get(key) for key in ("facts", "values", SETTINGS))
    if not (isinstance(stated, list) and isinstance(values, int) and settings):
        raise InputError(f"demonstrator facts: item {item.id} is not of source facts (facts: {stated!r})")
    drawn = rng.random()
    if drawn < config.refuse:
        answer = settings["refusals"][0]
    elif drawn < config.refuse + config.guess:
        answer = _letter(values, rng)
    else:
        answer = item.answer
    return f"{_thought(stated, values, rng, config)}{ANSWER_OPEN}{answer}"


def _thought(stated: list[str], values: int, rng: random.Random, config: FactsDemonstratorConfig) -> str:
    if not config.recall:
        return ""
    recalled = []
    for fact in stated:
        number, _, letter = fact.partition(":")
        wrong = rng.random() < config.recall_error_rate
        recalled.append(f"{number}:{_letter(values, rng, apart_from=letter) if wrong else letter}")
    return f"{THINK_OPEN}{' '.join(recalled)}"


def _letter(values: int, rng: random.Random, apart_from: str = "") -> str:
    return rng.choice([letter for letter in map(chr, range(FIRST, FIRST + values)) if letter != apart_from])
