"""The reference answer, straight away."""

from __future__ import annotations

import random

from components.contract.params import Params
from components.tasks.answers import ANSWER_OPEN
from components.tasks.item import Item


class GoldConfig(Params):
    """How the answer is written."""

    markup: bool = True
    """Whether the answer follows its mark, as the cold start teaches; a raw corpus has no marks."""


def gold(item: Item, rng: random.Random, *, config: GoldConfig) -> str:
    """Write the reference answer and nothing else."""
    return f"{ANSWER_OPEN}{item.answer}" if config.markup else item.answer
