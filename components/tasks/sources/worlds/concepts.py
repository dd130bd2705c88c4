"""Words rewritten by two or more named rules, which are the row's concepts: a recipe says which and how often.

`rev nxt: abch` asks for the word reversed and then each letter replaced by the next. Other than source `generators`,
which draws its compositions by itself, this one is told the rules, so that one of them can be rare, or a domain of its
own. Source: SwS (Liang et al. 2025), problems tagged by their core concepts.
"""

from __future__ import annotations

import random
from typing import Self

from pydantic import Field, field_validator, model_validator

from components.contract.errors import InputError, did_you_mean
from components.tasks.domains.made import Made, MadeConfig, made_rows
from components.tasks.domains.worlds.string_functions import FIRST, KEEPS_LENGTH, MIN_LETTERS, apply_all
from components.tasks.source import SourceRequest, SourceRows

VERIFIER = "exact"


class ConceptsConfig(MadeConfig):
    """The rules of the rows, and how large a word is."""

    rules: tuple[str, ...] = Field(min_length=1)
    """Rules that rows may ask for."""
    need: tuple[str, ...] = ()
    """Every row asks for one of these; they count as rules, too."""
    size: int = Field(default=2, ge=1, le=4)
    """Rules of a row, all different, in any order."""
    length: int = Field(default=4, ge=3, le=64)
    """Letters of a word."""
    letters: int = Field(default=8, ge=MIN_LETTERS, le=26)
    """Size of the alphabet, from a."""

    @field_validator("rules", "need")
    @classmethod
    def _known(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        for name in given:
            if name not in KEEPS_LENGTH:
                raise InputError(f"source concepts: no rule is called {name!r}{did_you_mean(name, KEEPS_LENGTH)}")
        return given

    @model_validator(mode="after")
    def _enough(self) -> Self:
        there = {*self.rules, *self.need}
        if len(there) < self.size:
            raise InputError(f"source concepts: rows of {self.size} rules, and there are {len(there)}")
        return self

    def verifiers(self) -> tuple[str, ...]:
        """Return the verifier of all rows."""
        return (VERIFIER,)


def concepts(request: SourceRequest, *, config: ConceptsConfig) -> SourceRows:
    """Draw rules and a word. `data["concepts"]` holds the rules in their order, `data["steps"]` the word after each."""
    there = list(dict.fromkeys((*config.rules, *config.need)))

    def draw(rng: random.Random) -> Made | None:
        first = [rng.choice(config.need)] if config.need else []
        chosen = first + rng.sample([name for name in there if name not in first], config.size - len(first))
        rng.shuffle(chosen)
        word = "".join(chr(FIRST + rng.randrange(config.letters)) for _ in range(config.length))
        steps = apply_all(chosen, word, config.letters)
        if steps[-1] in (word, *steps[:-1]):
            return None
        prompt = question(chosen, word)
        return Made(prompt, prompt, steps[-1], {"concepts": chosen, "word": word, "steps": steps})

    return made_rows("concepts", request, config, VERIFIER, draw)


def question(names: list[str], word: str) -> str:
    """Return the prompt that asks for these rules, from left to right."""
    return f"{' '.join(names)}: {word}"
