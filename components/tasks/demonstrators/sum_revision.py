"""A worker of sums who answers again by a critique: it keeps what the critique accepts, and follows its corrections."""

from __future__ import annotations

import random
from collections.abc import Iterator

from pydantic import Field, ValidationInfo, field_validator

from components.contract.errors import InputError
from components.contract.params import Params
from components.tasks.answers import ANSWER_OPEN, extract_answer, path_to_answer
from components.tasks.demonstrators.chain_sum_trace import EXPRESSION, THINK_OPEN
from components.tasks.demonstrators.sum_critique import MAX_STEPS, STEP
from components.tasks.item import Item
from components.tasks.revised import CRITIQUE, RESPONSE
from components.tasks.two_texts import check_two


class SumRevisionConfig(Params):
    """How careful the worker is in what the critique leaves to it."""

    step_error_rate: float = Field(default=0.0, ge=0, le=1)
    """Probability that the result of a step of its own is wrong by 1."""
    words: tuple[str, str] = ("right", "wrong")
    """The critic's verdicts."""
    marks: tuple[str, str] = ("ok", "no")
    """The critic's marks of a right step, and of a wrong one, behind which its correction stands."""

    @field_validator("words", "marks")
    @classmethod
    def _two(cls, value: tuple[str, str], info: ValidationInfo) -> tuple[str, str]:
        return check_two(f"demonstrator sum_revision: {info.field_name}", value)


def sum_revision(item: Item, rng: random.Random, *, config: SumRevisionConfig) -> str:
    """Answer a chain_sum again: `4+7=11 ok 11-3=9 no 11-3=8<answer>wrong` gives `<think>4+7=11 11-3=8<answer>8`.

    A response that the critique does not call wrong stands as it is. Else the steps that the critique accepts or
    corrects are taken over, wrong ones, too, and the rest is worked out. A critique that leaves the steps of the sum,
    or cannot be read, is followed up to there. Reads the item's `data["response"]` and `data["critique"]`.
    Source: Xi et al. 2025, Critique-RL, whose actor is prompted to follow critiques; this is a program in its place.
    """
    response, critique = item.data.get(RESPONSE), item.data.get(CRITIQUE)
    if not isinstance(response, str) or not isinstance(critique, str):
        raise InputError(
            f"demonstrator sum_revision: item {item.id} holds no response with a critique (data.{RESPONSE}, "
            f"data.{CRITIQUE})"
        )
    if extract_answer(critique).casefold() != config.words[1].casefold():
        return response
    total, due = _terms(item)
    told = _told(path_to_answer(critique).split()[: 3 * MAX_STEPS], config.marks)
    steps, follows = [], True
    for sign, number in due:
        begun = f"{total}{sign}{number}="
        step = next(told, None) if follows else None
        follows = step is not None and step[0] == begun
        if step is not None and follows:
            total = step[1]
        else:
            total += number if sign == "+" else -number
            if rng.random() < config.step_error_rate:
                total += rng.choice((-1, 1))
        steps.append(f"{begun}{total}")
    return f"{THINK_OPEN}{' '.join(steps)}{ANSWER_OPEN}{total}"


def _told(parts: list[str], marks: tuple[str, str]) -> Iterator[tuple[str, int]]:
    """Yield the steps that a critique leaves standing, as what they begin with and their result."""
    for at, part in enumerate(parts):
        found = STEP.fullmatch(part)
        refused = parts[at + 1 : at + 2] == [marks[1]]
        if found is not None and not refused:
            yield f"{int(found[1])}{found[2]}{int(found[3])}=", int(found[4])


def _terms(item: Item) -> tuple[int, list[tuple[str, int]]]:
    metadata = item.data.get("metadata")
    expression = metadata.get("expression") if isinstance(metadata, dict) else None
    if not isinstance(expression, str) or not EXPRESSION.fullmatch(expression):
        raise InputError(f"demonstrator sum_revision: item {item.id} is no chain_sum (expression: {expression!r:.80})")
    parts = expression.split(" ")
    return int(parts[0]), list(zip(parts[1::2], map(int, parts[2::2]), strict=True))
