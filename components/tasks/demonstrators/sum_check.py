"""A critic of sums who works the sum out, subtracts the answer that was given, and says whether nothing is left."""

from __future__ import annotations

import random

from pydantic import Field, field_validator

from components.contract.errors import InputError
from components.contract.params import Params
from components.tasks.answers import ANSWER_OPEN, extract_answer
from components.tasks.demonstrators.chain_sum_trace import THINK_OPEN
from components.tasks.domains.sum_flaws import terms_of
from components.tasks.item import Item
from components.tasks.revised import RESPONSE
from components.tasks.two_texts import check_two
from components.tasks.verifiers.numeric import parse_number


class SumCheckConfig(Params):
    """How careful the critic is."""

    step_error_rate: float = Field(default=0.0, ge=0, le=1)
    """Probability that a step's result is wrong by 1; later steps go on from it, and the verdict follows from it."""
    words: tuple[str, str] = ("right", "wrong")
    """The two verdicts."""

    @field_validator("words")
    @classmethod
    def _two(cls, value: tuple[str, str]) -> tuple[str, str]:
        return check_two("demonstrator sum_check: words", value)


def sum_check(item: Item, rng: random.Random, *, config: SumCheckConfig) -> str:
    """Judge the answer of `data["response"]` to a chain_sum: `<think>4+7=11 11-3=8 8-9=-1<answer>wrong`.

    The last step has the given answer in it, so that a small model compares by what it can do, arithmetic. An answer
    that is no whole number is wrong, without that step.
    """
    found, response = terms_of(item), item.data.get(RESPONSE)
    if found is None or not isinstance(response, str):
        raise InputError(
            f"demonstrator sum_check: item {item.id} is no chain_sum with a response (data.metadata.expression, "
            f"data.{RESPONSE})"
        )
    total, due = found
    value = parse_number(extract_answer(response))
    given = int(value) if value is not None and value == int(value) and abs(value) < 10**9 else None
    steps, left = [], 1
    for sign, number in due:
        start, total = total, total + (number if sign == "+" else -number) + _slip(rng, config)
        steps.append(f"{start}{sign}{number}={total}")
    if given is not None:
        left = total - given + _slip(rng, config)
        steps.append(f"{total}-{given}={left}")
    return f"{THINK_OPEN}{' '.join(steps)}{ANSWER_OPEN}{config.words[left != 0]}"


def _slip(rng: random.Random, config: SumCheckConfig) -> int:
    return rng.choice((-1, 1)) if rng.random() < config.step_error_rate else 0
