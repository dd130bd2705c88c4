"""Writes questions of source concepts where it is asked to, and answers any, whoever wrote them."""

from __future__ import annotations

import random
from collections.abc import Mapping
from types import MappingProxyType

from pydantic import Field, field_validator

from components.contract.errors import InputError, did_you_mean
from components.contract.params import Params
from components.tasks.answers import ANSWER_OPEN
from components.tasks.demonstrators.chain_sum_trace import THINK_OPEN
from components.tasks.domains.worlds.string_functions import FIRST, FUNCTIONS, MIN_LETTERS, apply_all
from components.tasks.item import Item
from components.tasks.mutations import mutate
from components.tasks.sources.worlds.concepts import question

NO_MISTAKES: Mapping[str, str] = MappingProxyType({})
MOST_RULES, MOST_LETTERS = 8, 64
"""Questions beyond these are not read: a model may have written them."""


class ConceptsAuthorConfig(Params):
    """What questions look like, and how careful their author and solver is."""

    length: int = Field(default=4, ge=3, le=MOST_LETTERS)
    """Letters of a word in a new question."""
    letters: int = Field(default=8, ge=MIN_LETTERS, le=26)
    """Size of the alphabet, from a."""
    unclear: float = Field(default=0.0, ge=0, le=1)
    """Share of the new questions that name a rule that there is not, so that solvers guess."""
    error_rate: float = Field(default=0.0, ge=0, le=1)
    """Probability that an answer is wrong in one letter."""
    mistakes: dict[str, str] = Field(default_factory=dict)
    """Rule -> the one that is applied in its place by mistake."""
    mistake_rate: float = Field(default=1.0, ge=0, le=1)
    """Probability that an answer has these mistakes."""
    think: bool = True
    """Whether the words between precede the answer: `<think>hcba<answer>adcb`."""

    @field_validator("mistakes")
    @classmethod
    def _known(cls, given: dict[str, str]) -> dict[str, str]:
        for name in (*given, *given.values()):
            if name not in FUNCTIONS:
                raise InputError(f"demonstrator concepts: no rule is called {name!r}{did_you_mean(name, FUNCTIONS)}")
        return given


def concepts(item: Item, rng: random.Random, *, config: ConceptsAuthorConfig) -> str:
    """Write a question on `data["names"]` if the item is a request for one, else the solution of its prompt.

    A prompt that cannot be read is answered by a word drawn by chance. Of an item only the prompt is read then.
    """
    if item.data.get("request") == "ask":
        names = [name for name in item.data.get("names", ()) if name in FUNCTIONS]
        if names and rng.random() < config.unclear:
            names[rng.randrange(len(names))] = "any"
        return question(names, _word(rng, config))
    mistakes = config.mistakes if config.mistakes and rng.random() < config.mistake_rate else {}
    steps = solved(item.prompt, config.letters, mistakes)
    if steps is None:
        return f"{ANSWER_OPEN}{_word(rng, config)}"
    answer = mutate(steps[-1], rng) if rng.random() < config.error_rate else steps[-1]
    thought = f"{THINK_OPEN}{' '.join(steps[:-1])}" if config.think and len(steps) > 1 else ""
    return f"{thought}{ANSWER_OPEN}{answer}"


def solved(prompt: str, letters: int, mistakes: Mapping[str, str] = NO_MISTAKES) -> list[str] | None:
    """Return the word of a question after each of its rules, or mistaken ones; None for a text that is no question."""
    named, colon, word = prompt.partition(": ")
    names = named.split(" ")
    alphabet = {chr(FIRST + place) for place in range(letters)}
    if not colon or not 1 <= len(names) <= MOST_RULES or not all(name in FUNCTIONS for name in names):
        return None
    if not 1 <= len(word) <= MOST_LETTERS or not set(word) <= alphabet:
        return None
    return apply_all([mistakes.get(name, name) for name in names], word, letters)


def _word(rng: random.Random, config: ConceptsAuthorConfig) -> str:
    return "".join(chr(FIRST + rng.randrange(config.letters)) for _ in range(config.length))
