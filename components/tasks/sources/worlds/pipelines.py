"""Tasks for planning: a chain of typed functions that turns words into what is shown, judged by executing it.

`abca>3 bb>1` wants a plan such as `uniq len`; any plan that gives the same values is right. Rows are split by their
shortest plan, so that another part needs plans that were never shown. The text form of OpenAGI (2023).
"""

from __future__ import annotations

import random
from typing import Self

from pydantic import Field, model_validator

from components.tasks.domains.made import Made, MadeConfig, made_rows
from components.tasks.domains.worlds.plans import (
    ALPHABET,
    FIRST,
    MAX_STEPS,
    STEPS,
    Type,
    execute,
    shortest_plan,
    type_of,
    write_value,
)
from components.tasks.source import SourceRequest, SourceRows

VERIFIER = "plan"


class PipelinesConfig(MadeConfig):
    """How long plans are, and how many cases show what is wanted."""

    min_steps: int = Field(default=1, ge=1, le=MAX_STEPS)
    """Fewest steps of the shortest plan."""
    max_steps: int = Field(default=2, ge=1, le=4)
    """Most steps of the shortest plan: the knob of difficulty."""
    cases: int = Field(default=2, ge=1, le=8)
    """Words with what they become; more of them leave fewer plans right."""
    min_length: int = Field(default=3, ge=1)
    """Shortest word in letters."""
    max_length: int = Field(default=4, ge=1, le=32)
    """Longest word."""
    letters: int = Field(default=4, ge=2, le=ALPHABET)
    """Letters that words are made of, from a."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        self.check_order("pipelines", ("min_steps", "max_steps"), ("min_length", "max_length"))
        return self

    def verifiers(self) -> tuple[str, ...]:
        """Return the verifier of all rows."""
        return (VERIFIER,)


def pipelines(request: SourceRequest, *, config: PipelinesConfig) -> SourceRows:
    """Draw tasks without end; the answer is the first of the shortest plans. `data["cases"]` holds words and values."""

    def draw(rng: random.Random) -> Made | None:
        words = [_word(config, rng) for _ in range(config.cases)]
        plan = _plan(rng.randint(config.min_steps, config.max_steps), rng)
        wanted = [execute(plan, word)[-1] for word in words]
        shortest = shortest_plan(words, wanted, config.max_steps) if len(set(words)) == len(words) else None
        if shortest is None or len(shortest) < config.min_steps:
            return None
        cases = [[word, write_value(value)] for word, value in zip(words, wanted, strict=True)]
        prompt = " ".join(f"{word}>{value}" for word, value in cases)
        answer = " ".join(shortest)
        return Made(answer, prompt, answer, {"cases": cases, "wanted": type_of(wanted[0])})

    return made_rows("pipelines", request, config, VERIFIER, draw)


def _word(config: PipelinesConfig, rng: random.Random) -> str:
    length = rng.randint(config.min_length, config.max_length)
    return "".join(chr(FIRST + rng.randrange(config.letters)) for _ in range(length))


def _plan(steps: int, rng: random.Random) -> list[str]:
    """Return a plan whose types fit, drawn step by step."""
    plan: list[str] = []
    has: Type = "word"
    for _ in range(steps):
        name = rng.choice([name for name, step in STEPS.items() if step.takes == has])
        plan.append(name)
        has = STEPS[name].gives
    return plan
