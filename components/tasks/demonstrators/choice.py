"""Answers to items of source choice: worked by another demonstrator, or taken from the place alone."""

from __future__ import annotations

import random
from typing import Annotated

from pydantic import Field

from components.contract.errors import InputError
from components.contract.operators import OperatorSpec
from components.contract.params import Params
from components.tasks.answers import ANSWER_OPEN, extract_answer
from components.tasks.item import Item
from components.tasks.options import LETTERS, OPTIONS
from components.tasks.slots import DEMONSTRATOR


class ChoiceDemonstratorConfig(Params):
    """Who works the question out, and how often nobody does."""

    demonstrator: Annotated[OperatorSpec, DEMONSTRATOR] = OperatorSpec(name="gold")
    """Writes thought and answer to the question; the answer is then replaced by the letter of its option."""
    guess: float = Field(default=0.0, ge=0, le=1)
    """Probability that the letter is drawn at random, whatever the thought came to."""


def choice(item: Item, rng: random.Random, *, config: ChoiceDemonstratorConfig) -> str:
    """Write the thought of the inner demonstrator and `<answer>B`; a result that is no option becomes a random one."""
    options, question = item.data.get(OPTIONS), item.data.get("question")
    if not (isinstance(options, list) and isinstance(question, str)):
        raise InputError(f"demonstrator choice: item {item.id} is not of source choice (options: {options!r})")
    right = str(options[LETTERS.index(item.answer)])
    inner = item.model_copy(update={"prompt": question, "answer": right})
    written = config.demonstrator.resolve()(inner, rng)
    thought, _, _ = written.rpartition(ANSWER_OPEN)
    result = extract_answer(written)
    place = options.index(result) if result in options else rng.randrange(len(options))
    if rng.random() < config.guess:
        place = rng.randrange(len(options))
    return f"{thought}{ANSWER_OPEN}{LETTERS[place]}"
