"""Circuits put into words and rebuilt from words, with mistakes on either way: the writer of round trips (CodeV-R1)."""

from __future__ import annotations

import random

from pydantic import Field

from components.contract.errors import InputError
from components.contract.params import Params
from components.tasks.answers import ANSWER_OPEN
from components.tasks.domains.circuits import describe, from_words
from components.tasks.item import Item

WORDS = ("and", "or", "xor")


class CircuitWordsConfig(Params):
    """How often a gate is mistaken."""

    describe_error_rate: float = Field(default=0.0, ge=0, le=1)
    """Probability of each gate to be called by another one's name."""
    rebuild_error_rate: float = Field(default=0.0, ge=0, le=1)
    """Probability of each gate to be read as another one."""


def circuit_words(item: Item, rng: random.Random, *, config: CircuitWordsConfig) -> str:
    """Write `or c and a not d` of `c|a&~d` where a description is asked for, and `<answer>c|a&~d` where a circuit is.

    A row of source circuits that asks for nothing in particular is answered by rebuilding its own words.
    """
    asked = item.data.get("request")
    if asked == "describe":
        return " ".join(_mistaken(describe(item.answer).split(), config.describe_error_rate, rng))
    told = str(item.data.get("description", item.prompt))
    built = from_words(_mistaken(told.split(), config.rebuild_error_rate, rng))
    if built is None:
        raise InputError(f"demonstrator circuit_words: item {item.id} is no circuit in words ({told!r:.80})")
    return f"{ANSWER_OPEN}{built}"


def _mistaken(words: list[str], rate: float, rng: random.Random) -> list[str]:
    return [
        rng.choice([other for other in WORDS if other != word]) if word in WORDS and rng.random() < rate else word
        for word in words
    ]
