"""A writer of the dialect of source dialects: it spells most letters in the common way, some in the rare one."""

from __future__ import annotations

import random

from pydantic import Field

from components.contract.errors import InputError
from components.contract.params import Params
from components.tasks.answers import ANSWER_OPEN
from components.tasks.domains.worlds.dialects import LETTERS, spell
from components.tasks.item import Item


class DialectWriterConfig(Params):
    """Habits of the writer."""

    rare: float = Field(default=0.1, ge=0, le=1)
    """Probability that a letter has its rare spelling."""
    letter_error_rate: float = Field(default=0.0, ge=0, le=1)
    """Probability that a letter is taken for another one, which may change the word's side."""


def dialect_writer(item: Item, rng: random.Random, *, config: DialectWriterConfig) -> str:
    """Write `<answer>opqmr`, the plain `data["word"]` in the dialect, whatever the item asks about it."""
    word = item.data.get("word")
    if not (isinstance(word, str) and set(word) <= set(LETTERS)):
        raise InputError(f"demonstrator dialect_writer: item {item.id} is not of source dialects (no data.word)")
    meant = "".join(
        rng.choice(LETTERS.replace(letter, "")) if rng.random() < config.letter_error_rate else letter
        for letter in word
    )
    return f"{ANSWER_OPEN}{spell(meant, config.rare, rng)}"
