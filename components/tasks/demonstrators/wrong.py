"""A wrong answer near the right one, straight away: what careless annotators add to demonstrations."""

from __future__ import annotations

import random

from components.contract.params import Params
from components.tasks.answers import ANSWER_OPEN
from components.tasks.item import Item
from components.tasks.mutations import mutate


class WrongConfig(Params):
    """How the answer is written."""

    markup: bool = True
    """Whether the answer follows its mark."""


def wrong(item: Item, rng: random.Random, *, config: WrongConfig) -> str:
    """Write a mutation of the reference answer."""
    answer = mutate(item.answer, rng)
    return f"{ANSWER_OPEN}{answer}" if config.markup else answer
