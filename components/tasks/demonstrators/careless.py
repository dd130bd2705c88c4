"""Another demonstrator with mistakes: any program becomes a writer with a settable error rate."""

from __future__ import annotations

import random
from typing import Annotated

from pydantic import Field

from components.contract.operators import OperatorSpec
from components.contract.params import Params
from components.tasks.answers import extract_answer
from components.tasks.item import Item
from components.tasks.mutations import mutate
from components.tasks.slots import DEMONSTRATOR


class CarelessConfig(Params):
    """Who writes, and how often the answer is wrong."""

    demonstrator: Annotated[OperatorSpec, DEMONSTRATOR] = OperatorSpec(name="gold")
    """Writes the text whose answer may be spoilt."""
    error_rate: float = Field(default=0.0, ge=0, le=1)
    """Probability that the final answer of the text is replaced by a wrong one near it; the way to it stays."""


def careless(item: Item, rng: random.Random, *, config: CarelessConfig) -> str:
    """Write the inner text, with a mutation of its answer at `error_rate`: `<think>4+7=11<answer>12`."""
    written = str(config.demonstrator.resolve()(item, rng))
    spoilt = rng.random() < config.error_rate
    answer = extract_answer(written)
    if not spoilt or not answer:
        return written
    before, _, after = written.rpartition(answer)
    return f"{before}{mutate(answer, rng)}{after}"
