"""Words of a regular language in a plain alphabet or in a dialect: is a word a member, and how does the dialect say it.

Stands for the data of a guard (DuoGuard): many labelled texts of one language, few of another, and a generator that
rewrites the one in the other.
"""

from __future__ import annotations

import random
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from components.contract.errors import InputError
from components.tasks.domains.made import Made, MadeConfig, made_rows
from components.tasks.domains.worlds.dialects import LETTERS, MEMBER, OTHER, is_member, spell
from components.tasks.source import SourceRequest, SourceRows

VERIFIER = "exact"


class DialectsConfig(MadeConfig):
    """How words are spelt, and what is asked about them."""

    speech: Literal["plain", "dialect"] = "plain"
    """Alphabet of the words that are to be classified."""
    rare: float = Field(default=0.5, ge=0, le=1)
    """Share of letters in their rare spelling; read for words of the dialect."""
    ask: Literal["member", "rewrite"] = "member"
    """member: is the word in the language, `y` or `n`. rewrite: `say` the plain word in the dialect."""
    min_length: int = Field(default=4, ge=2)
    """Fewest letters."""
    max_length: int = Field(default=6, ge=2, le=16)
    """Most letters."""

    @model_validator(mode="after")
    def _rewrites_are_of_plain_words(self) -> Self:
        if self.ask == "rewrite" and self.speech == "dialect":
            raise InputError("source dialects: ask: rewrite wants speech: plain, since plain words are rewritten")
        return self

    def verifiers(self) -> tuple[str, ...]:
        """Return the verifier of all rows."""
        return (VERIFIER,)


def dialects(request: SourceRequest, *, config: DialectsConfig) -> SourceRows:
    """Draw words without end, members as often as others: `fadbc` is `n`, `opqmr` in the dialect the same.

    `data` holds the plain `word`, by which parts are told apart; the answer to `say fadbc` is its common spelling.
    Source: Deng et al. 2025, DuoGuard: safe and unsafe texts of English and of languages with little data.
    """
    return made_rows("dialects", request, config, VERIFIER, lambda rng: _draw(config, rng))


def _draw(config: DialectsConfig, rng: random.Random) -> Made:
    wanted, length = rng.random() < 0.5, rng.randint(config.min_length, config.max_length)
    word = _word(length, rng)
    while is_member(word) != wanted:
        word = _word(length, rng)
    data: dict[str, Any] = {"word": word}
    if config.ask == "rewrite":
        return Made(word, f"say {word}", spell(word, 0, rng), data)
    shown = spell(word, config.rare, rng) if config.speech == "dialect" else word
    return Made(word, shown, MEMBER if wanted else OTHER, data)


def _word(length: int, rng: random.Random) -> str:
    return "".join(rng.choices(LETTERS, k=length))
