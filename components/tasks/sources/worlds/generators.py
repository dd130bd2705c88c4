"""Composed rules: each composition is a generator of tasks, and as many of them are trained as the recipe says.

`rev nxt: abch` asks for the word reversed and then each letter replaced by the next. Compositions differ as functions,
and those of `unseen` are the same whatever number is trained: so 2, 8 and 32 generators are compared on equal ground.
Sources: InternBootcamp (2025), task scaling; Instruct-SkillMix (Kaur et al. 2024), k skills of a list.
"""

from __future__ import annotations

import random
from typing import Literal, Self

from pydantic import Field, model_validator

from components.contract.errors import InputError
from components.tasks.domains.made import Made, MadeConfig, made_rows
from components.tasks.domains.worlds.compositions import Composition, compositions
from components.tasks.domains.worlds.string_functions import FIRST, KEEPS_LENGTH, MIN_LETTERS, apply_all
from components.tasks.source import SourceRequest, SourceRows

VERIFIER = "exact"


class GeneratorsConfig(MadeConfig):
    """How many rules are composed, and which compositions rows are of."""

    rules: int = Field(default=12, ge=2, le=len(KEEPS_LENGTH))
    """Atomic rules of the world."""
    size: int = Field(default=2, ge=1, le=4)
    """Rules of a composition, all different: 1 for single skills, 2 for pairs, 3 for triples."""
    generators: int = Field(default=32, ge=1)
    """Compositions that count as trained."""
    unseen: int = Field(default=16, ge=0)
    """Compositions that count as unseen, none of them trained."""
    include: Literal["trained", "unseen"] = "trained"
    """Compositions that rows are of."""
    length: int = Field(default=4, ge=3, le=64)
    """Letters of a word; with `size` the knob of difficulty."""
    letters: int = Field(default=8, ge=MIN_LETTERS, le=26)
    """Size of the alphabet, from a."""
    world: int = 0
    """Seed of which compositions are trained and unseen."""

    @model_validator(mode="after")
    def _enough(self) -> Self:
        there = len(_all(self))
        if self.generators + self.unseen > there:
            raise InputError(
                f"source generators: {self.generators} generators and {self.unseen} unseen, and {self.rules} rules "
                f"have {there} different compositions of {self.size}"
            )
        if self.include == "unseen" and not self.unseen:
            raise InputError("source generators: include: unseen, and unseen is 0")
        return self

    def verifiers(self) -> tuple[str, ...]:
        """Return the verifier of all rows."""
        return (VERIFIER,)


def generators(request: SourceRequest, *, config: GeneratorsConfig) -> SourceRows:
    """Draw words for the compositions, each equally often. `data["steps"]` holds the word after each rule."""
    chosen = included(config)

    def draw(rng: random.Random) -> Made | None:
        composition = rng.choice(chosen)
        word = "".join(chr(FIRST + rng.randrange(config.letters)) for _ in range(config.length))
        steps = apply_all(composition, word, config.letters)
        if steps[-1] in (word, *steps[:-1]):
            return None
        prompt = f"{' '.join(composition)}: {word}"
        return Made(prompt, prompt, steps[-1], {"rules": list(composition), "word": word, "steps": steps})

    return made_rows("generators", request, config, VERIFIER, draw)


def included(config: GeneratorsConfig) -> tuple[Composition, ...]:
    """Return the compositions that rows are of: trained from the front of the world's order, unseen from its end."""
    there = _all(config)
    return there[: config.generators] if config.include == "trained" else there[len(there) - config.unseen :]


def _all(config: GeneratorsConfig) -> tuple[Composition, ...]:
    return compositions(config.rules, config.size, config.length, config.letters, config.world)
