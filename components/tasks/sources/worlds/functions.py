"""String functions with meaningless names, nested: what composing known skills is, without anything else in the way.

The prompt is a call, `C(K(abch))`, the answer its value. Level 1 is a function by itself; a policy that knows all of
them may still not compose them. Some functions can be held out of compositions, so that composing can be told from
remembering pairs. Source: RL-compositionality (Yuan et al. 2025); the list of functions is reconstructed.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Literal, Self

from pydantic import Field, model_validator

from components.contract.errors import InputError
from components.tasks.domains.made import Made, MadeConfig, made_rows
from components.tasks.domains.worlds.string_functions import FIRST, FUNCTIONS, MIN_LETTERS, apply_all
from components.tasks.seeds import derive_rng
from components.tasks.source import SourceRequest, SourceRows

VERIFIER = "exact"


class FunctionsConfig(MadeConfig):
    """Which functions are called, how deep, and whether the prompt defines them."""

    functions: int = Field(default=len(FUNCTIONS), ge=2, le=len(FUNCTIONS))
    """Functions of the world."""
    held_out: int = Field(default=8, ge=0)
    """How many of them count as held out."""
    include: Literal["trained", "held_out", "all"] = "all"
    """Functions that calls are made of; a composition never mixes trained with held-out ones unless it is `all`."""
    min_level: int = Field(default=1, ge=1, le=12)
    """Least depth of a call: with `max_level` the knob of difficulty."""
    max_level: int = Field(default=1, ge=1, le=12)
    """Greatest depth."""
    min_length: int = Field(default=3, ge=1)
    """Shortest word in letters."""
    max_length: int = Field(default=5, ge=1)
    """Longest word."""
    max_result: int = Field(default=16, ge=1, le=4096)
    """Longest word that a call may give, inner calls included; others are drawn again."""
    letters: int = Field(default=8, ge=MIN_LETTERS, le=26)
    """Size of the alphabet, from a."""
    shown: bool = False
    """Whether definitions of the functions called precede the call; `data["bare_prompt"]` is the prompt without."""
    names: Literal["letter", "func"] = "letter"
    """`A(...)`, one token for a small tokenizer, or `func_1(...)`."""
    world: int = 0
    """Seed of which name a function has, and of which are held out."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        self.check_order("functions", ("min_level", "max_level"), ("min_length", "max_length"))
        if self.max_length > self.max_result:
            raise InputError(f"source functions: max_length {self.max_length} is above max_result {self.max_result}")
        if not included(self):
            raise InputError(f"source functions: no function is {self.include}: {self.held_out} of {self.functions}")
        return self

    def verifiers(self) -> tuple[str, ...]:
        """Return the verifier of all rows."""
        return (VERIFIER,)


def functions(request: SourceRequest, *, config: FunctionsConfig) -> SourceRows:
    """Draw calls without end. `data["steps"]` holds the calls from the inside, each with its value: `K(abch)=hcba`."""
    named = list(included(config).items())

    def draw(rng: random.Random) -> Made | None:
        word = "".join(
            chr(FIRST + rng.randrange(config.letters)) for _ in range(rng.randint(config.min_length, config.max_length))
        )
        chosen = [rng.choice(named) for _ in range(rng.randint(config.min_level, config.max_level))]
        return _made(word, chosen, config)

    return made_rows("functions", request, config, VERIFIER, draw)


def included(config: FunctionsConfig) -> dict[str, str]:
    """Return called name -> function of those that calls are made of."""
    order = derive_rng(config.world, "functions").sample(sorted(FUNCTIONS), config.functions)
    places = {"all": (0, None), "held_out": (0, config.held_out), "trained": (config.held_out, None)}
    kept = range(config.functions)[slice(*places[config.include])]
    called = [chr(ord("A") + place) if config.names == "letter" else f"func_{place + 1}" for place in kept]
    return dict(zip(called, [order[place] for place in kept], strict=True))


def _made(word: str, chosen: Sequence[tuple[str, str]], config: FunctionsConfig) -> Made | None:
    """Return the item of functions applied in order; None where a result is empty or too long."""
    results = apply_all([function for _, function in chosen], word, config.letters)
    if not all(0 < len(result) <= config.max_result for result in results):
        return None
    given = [word, *results]
    steps = [f"{name}({before})={after}" for (name, _), before, after in zip(chosen, given, results, strict=False)]
    call = word
    for name, _ in chosen:
        call = f"{name}({call})"
    told = "".join(f"{name}: {FUNCTIONS[function][0]}. " for name, function in sorted(dict(chosen).items()))
    prompt = f"{told}{call}" if config.shown else call
    data = {"steps": steps, "level": len(chosen), "functions": [name for name, _ in chosen], "bare_prompt": call}
    return Made(call, prompt, results[-1], data)
