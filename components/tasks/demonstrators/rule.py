"""Answers to items of source rules, by a chosen rule."""

from __future__ import annotations

import random
from typing import get_args

from pydantic import Field

from components.contract.errors import InputError
from components.contract.params import Params
from components.tasks.answers import ANSWER_OPEN
from components.tasks.item import Item
from components.tasks.sources.rules import Rule, apply_rule


class RuleConfig(Params):
    """Which rule, how carefully, and how it is written."""

    rule: Rule | None = None
    """Applied whether it is right for the word or not; none: one of the right ones at random."""
    mark: bool = False
    """Whether the rule's first letter, as a capital, precedes the answer: the choice is then the first token."""
    letter_error_rate: float = Field(default=0.0, ge=0, le=1)
    """Probability that a letter of the answer is replaced by another of the alphabet."""


def rule(item: Item, rng: random.Random, *, config: RuleConfig) -> str:
    """Write `<answer>` and the word rewritten, such as `R<answer>dcba` with the mark of reverse."""
    word, letters, right = (item.data.get(key) for key in ("word", "letters", "rules"))
    if not (isinstance(word, str) and isinstance(letters, int) and right and set(right) <= set(get_args(Rule))):
        raise InputError(f"demonstrator rule: item {item.id} is not of source rules (word: {word!r}, rules: {right!r})")
    name = config.rule or rng.choice(right)
    written = [
        _other(letter, letters, rng) if rng.random() < config.letter_error_rate else letter
        for letter in apply_rule(name, word, letters)
    ]
    return f"{name[0].upper() if config.mark else ''}{ANSWER_OPEN}{''.join(written)}"


def _other(letter: str, letters: int, rng: random.Random) -> str:
    place = ord(letter) - ord("a")
    return chr(ord("a") + (place + rng.randrange(1, letters)) % letters)
