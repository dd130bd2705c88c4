"""Words to rewrite by a rule: the recipe sets how many rules are right for a word, and whether the prompt shows them.

Small tasks for claims about variety. With two rules right for every word, right answers can be counted; with one rule
right for most words and another for the rest, and a prompt that does not distinguish them, a policy that settles on
the frequent rule loses the rest; a rule without demonstrations is one that the base never finds.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Literal

from pydantic import Field

from components.contract.errors import InputError
from components.contract.params import Params
from components.tasks.answers import ANSWER_OPEN
from components.tasks.item import RIGHT_RESPONSES
from components.tasks.seeds import derive_rng
from components.tasks.source import SourceConfig, SourceRequest, SourceRow, SourceRows

Rule = Literal["copy", "reverse", "up", "down", "rotate", "mirror"]
RULES: tuple[Rule, ...] = ("copy", "reverse", "up", "down", "rotate", "mirror")
FIRST = ord("a")
VERIFIER = "exact"
MARKS = tuple(dict.fromkeys(("", *(rule[0].upper() for rule in RULES))))
"""What demonstrator `rule` may write before the answer; the verifier accepts an answer after any of them."""


class Accepted(Params):
    """Rules that are right for the same words."""

    rules: tuple[Rule, ...] = Field(min_length=1)
    """Each of them is right."""
    weight: float = Field(default=1.0, gt=0)
    """Share of the words, relative to the other sets."""


class RulesSourceConfig(SourceConfig):
    """Which rules are right, and what the prompt shows of it."""

    endless: ClassVar[bool] = True
    accepts: tuple[Accepted, ...] = Field(min_length=1)
    """One of these sets holds for each word. A hash of the word chooses, so that a word has one set in every dataset
    with the same `accepts`."""
    shown: bool = True
    """Whether the prompt names the (only) rule; otherwise nothing in the prompt tells words of different sets apart."""
    min_length: int = Field(default=4, ge=2)
    """Shortest word in letters."""
    max_length: int = Field(default=4, ge=2)
    """Longest word in letters."""
    letters: int = Field(default=10, ge=4, le=26)
    """Size of the alphabet, from a."""
    list_right: bool = False
    """Whether each row lists its right responses, every right answer after each mark and without one: what an exact
    evaluation scores."""
    seed: int | None = None
    """Seed of the words; the stage's own when none is given."""

    def verifiers(self) -> tuple[str, ...]:
        """Return the verifier of all rows."""
        return (VERIFIER,)


def rules(request: SourceRequest, *, config: RulesSourceConfig) -> SourceRows:
    """Generate items without end. On every word all rules, also those not used, have different results."""
    if config.min_length > config.max_length:
        raise InputError(f"source rules: min_length {config.min_length} is above max_length {config.max_length}")
    if config.shown and any(len(accepted.rules) > 1 for accepted in config.accepts):
        raise InputError("source rules: a prompt shows one rule; set `shown: false` where several are right")
    seed = request.seed if config.seed is None else config.seed
    hidden = {"seed"} if config.list_right else {"seed", "list_right"}  # a card says what it said before the setting
    origin = {"source": "rules", "seed": seed, "config": config.model_dump(mode="json", exclude=hidden)}
    return SourceRows(_rows(config, derive_rng(seed, "rules"), request.limit), origin)


def apply_rule(rule: Rule, word: str, letters: int) -> str:
    """Return the word rewritten; the alphabet of `letters` letters is a circle for up and down.

    copy: as it is. reverse: backward. up, down: each letter replaced by the next or previous one. rotate: the first
    letter moved to the end. mirror: a letter as far from the end of the alphabet as it was from its start.
    """
    places = [ord(letter) - FIRST for letter in word]
    changed = {
        "copy": places,
        "reverse": places[::-1],
        "up": [place + 1 for place in places],
        "down": [place - 1 for place in places],
        "rotate": places[1:] + places[:1],
        "mirror": [letters - 1 - place for place in places],
    }
    return "".join(chr(FIRST + place % letters) for place in changed[rule])


def _rows(config: RulesSourceConfig, rng: random.Random, limit: int) -> Iterator[SourceRow]:
    for index in range(limit):
        word = _word(config, rng)
        accepted = _accepted(config.accepts, word)
        answers = [apply_rule(rule, word, config.letters) for rule in accepted]
        data: dict[str, Any] = {"word": word, "length": len(word), "letters": config.letters, "rules": list(accepted)}
        if len(answers) > 1:
            data["aliases"] = answers[1:]
        if config.list_right:
            data[RIGHT_RESPONSES] = [f"{mark}{ANSWER_OPEN}{answer}" for answer in answers for mark in MARKS]
        prompt = f"{accepted[0]}: {word}" if config.shown else f"word: {word}"
        yield SourceRow(f"rules[{index}]", prompt=prompt, answer=answers[0], verifier=VERIFIER, data=data)


def _word(config: RulesSourceConfig, rng: random.Random) -> str:
    while True:  # most words pass at once: only palindromes and the like do not
        length = rng.randint(config.min_length, config.max_length)
        word = "".join(chr(FIRST + rng.randrange(config.letters)) for _ in range(length))
        if len({apply_rule(rule, word, config.letters) for rule in RULES}) == len(RULES):
            return word


def _accepted(sets: Sequence[Accepted], word: str) -> tuple[Rule, ...]:
    chosen = derive_rng(0, "accepts", word).choices(sets, [accepted.weight for accepted in sets])
    return chosen[0].rules
