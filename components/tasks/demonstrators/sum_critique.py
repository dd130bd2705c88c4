"""A critic of worked sums: it checks each step in the notation of the steps, and errs as often as asked."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from pydantic import Field, model_validator

from components.contract.errors import InputError
from components.contract.params import Params
from components.tasks.answers import ANSWER_OPEN, extract_answer, path_to_answer
from components.tasks.demonstrators.chain_sum_trace import EXPRESSION, THINK_OPEN
from components.tasks.item import Item

STEP = re.compile(r"(-?\d{1,9})([+-])(-?\d{1,9})=(-?\d{1,9})")
MAX_STEPS = 64
"""Steps of a response that are read: what a model wrote may be of any length."""


class SumCritiqueConfig(Params):
    """How careful the critic is, and how it writes."""

    error_rate: float = Field(default=0.0, ge=0, le=1)
    """Probability that a check is wrong: a wrong step passes, or a right one is corrected to a wrong result near it."""
    after: Literal["redo", "go_on", "stop"] = "redo"
    """What follows a step found wrong and its correction. redo: the rest of the sum from the right total. go_on: checks
    of the steps as they are written. stop: the verdict."""
    marks: tuple[str, str] = ("ok", "no")
    """What stands behind a step that was found right, and behind one that was found wrong."""
    words: tuple[str, str] = ("right", "wrong")
    """The two verdicts."""

    @model_validator(mode="after")
    def _told_apart(self) -> SumCritiqueConfig:
        for name, (right, wrong) in (("marks", self.marks), ("words", self.words)):
            if not right.strip() or not wrong.strip() or right.casefold() == wrong.casefold():
                raise InputError(f"demonstrator sum_critique: {name} {[right, wrong]} have to be two different texts")
        return self


class Step(NamedTuple):
    """One step of a worked sum."""

    start: int
    sign: str
    number: int
    result: int

    def __str__(self) -> str:
        return f"{self.start}{self.sign}{self.number}={self.result}"

    @property
    def true(self) -> int:
        """Return the result that the step should have."""
        return self.start + (self.number if self.sign == "+" else -self.number)


@dataclass
class Critique:
    """What was written so far, and the total that the next step has to begin from."""

    total: int
    parts: list[str]
    faults: int = 0

    def right_step(self, sign: str, number: int) -> None:
        """Write a step worked out by the critic, and go on from its total."""
        step = Step(self.total, sign, number, 0)
        self.total = step.true
        self.parts.append(str(step._replace(result=self.total)))


def sum_critique(item: Item, rng: random.Random, *, config: SumCritiqueConfig) -> str:
    """Check `data["response"]` to a chain_sum step by step: `<think>4+7=11 ok 11-3=9 no 11-3=8<answer>wrong`.

    A step is right if it begins from the total before it, adds the term that is due, and its result is true. Steps that
    the response leaves out are worked out, and its answer is compared with the last total; so a response of an answer
    alone is judged by a solution. The verdict is of the checks, not of `item.answer`: two errors that cancel are found.
    Source: Wang et al. 2025, critique fine-tuning on one problem: a critique walks through a solution, names its errors
    and ends in a verdict; its teachers are models, this is a program in their place.
    """
    response = item.data.get("response")
    if not isinstance(response, str):
        raise InputError(f"demonstrator sum_critique: item {item.id} holds no response to criticise (data.response)")
    first, due = _terms(item)
    written = [STEP.fullmatch(text) for text in path_to_answer(response).split()[:MAX_STEPS]]
    critique = Critique(first, [])
    for at, (sign, number) in enumerate(due):
        if critique.faults and config.after == "stop":
            break
        if at >= len(written) or (critique.faults and config.after == "redo"):
            critique.right_step(sign, number)
        else:
            _check(critique, _read(written[at]), sign, number, rng, config)
    is_right = not critique.faults and len(written) <= len(due) and _says(response, critique.total)
    return f"{THINK_OPEN}{' '.join(critique.parts)}{ANSWER_OPEN}{config.words[not is_right]}"


def _check(
    critique: Critique, step: Step | None, sign: str, number: int, rng: random.Random, config: SumCritiqueConfig
) -> None:
    """Mark one step, and correct it if it is found wrong; what is no step is not quoted."""
    due = Step(critique.total, sign, number, 0)
    is_right = step == due._replace(result=due.true)
    errs = rng.random() < config.error_rate
    passes = step is not None and is_right != errs
    critique.parts += ([] if step is None else [str(step)]) + [config.marks[not passes]]
    if passes and step is not None:
        critique.total = step.result
        return
    critique.faults += 1
    critique.right_step(sign, number)
    if is_right:  # the critic's own error: a right step got here
        critique.total += rng.choice((-1, 1))
        critique.parts[-1] = str(due._replace(result=critique.total))
    if config.after == "go_on" and step is not None:
        critique.total = step.result


def _read(found: re.Match[str] | None) -> Step | None:
    return None if found is None else Step(int(found[1]), found[2], int(found[3]), int(found[4]))


def _says(response: str, total: int) -> bool:
    return extract_answer(response) == str(total)


def _terms(item: Item) -> tuple[int, Sequence[tuple[str, int]]]:
    """Return the first number, and sign and number of each that follows."""
    metadata = item.data.get("metadata")
    expression = metadata.get("expression") if isinstance(metadata, dict) else None
    if not isinstance(expression, str) or not EXPRESSION.fullmatch(expression):
        raise InputError(f"demonstrator sum_critique: item {item.id} is no chain_sum (expression: {expression!r:.80})")
    parts = expression.split(" ")
    return int(parts[0]), list(zip(parts[1::2], map(int, parts[2::2]), strict=True))
