"""A critic of worked sums who names each flaw by step and kind, misses some kinds, and sees flaws that are none."""

from __future__ import annotations

import random
from typing import Literal

from pydantic import Field

from components.contract.errors import InputError
from components.contract.params import Params
from components.tasks.critique_units import critique_of
from components.tasks.domains.sum_flaws import KINDS, flaws_of, terms_of
from components.tasks.item import Item
from components.tasks.revised import RESPONSE


class FlawCritiqueConfig(Params):
    """What the critic does not see, and what it sees amiss."""

    misses: tuple[Literal["term", "sign", "slip"], ...] = ()
    """Kinds of flaws that it never names."""
    false_rate: float = Field(default=0.0, ge=0, le=1)
    """Probability, for each step, that it names a flaw that is not there, of a kind drawn evenly."""


def flaw_critique(item: Item, rng: random.Random, *, config: FlawCritiqueConfig) -> str:
    """Name the flaws of `data["response"]` to a chain_sum: `<answer>1 term, 3 slip`, or `<answer>none`.

    Source: Lan et al. 2024, MultiCritique: critiques are lists of units, each with the place of a flaw and what is
    wrong; its critics are models, this is a program in the place of one.
    """
    found, response = terms_of(item), item.data.get(RESPONSE)
    if found is None or not isinstance(response, str):
        raise InputError(
            f"demonstrator flaw_critique: item {item.id} is no chain_sum with a response (data.metadata.expression, "
            f"data.{RESPONSE})"
        )
    first, due = found
    named = {flaw for flaw in flaws_of(first, due, response) if flaw[1] not in config.misses}
    for step in range(1, len(due) + 1):
        if rng.random() < config.false_rate:
            named.add((step, rng.choice(KINDS)))
    return critique_of([f"{step} {kind}" for step, kind in sorted(named)])
