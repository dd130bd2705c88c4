"""Circuits of an engineer who takes one gate for another as a habit: mistakes that are likelier than what is right."""

from __future__ import annotations

import random

from pydantic import Field, model_validator

from components.contract.errors import InputError
from components.contract.params import Params
from components.tasks.answers import ANSWER_OPEN
from components.tasks.domains.circuits import GATES
from components.tasks.item import Item


class BiasedCircuitsConfig(Params):
    """Which gate is mistaken, how often, and how often a text is no circuit at all."""

    taken: str = "^"
    """The gate that is mistaken, one of & ^ |."""
    as_gate: str = "|"
    """What it is taken for."""
    rate: float = Field(default=0.7, ge=0, le=1)
    """Probability of each such gate to be mistaken; above a half the mistake is likelier than the right gate."""
    broken_rate: float = Field(default=0.0, ge=0, le=1)
    """Probability that the last sign is left out, so that the text does not compile."""

    @model_validator(mode="after")
    def _are_gates(self) -> BiasedCircuitsConfig:
        if not {self.taken, self.as_gate} <= set(GATES) or self.taken == self.as_gate:
            raise InputError(f"taken {self.taken!r} as_gate {self.as_gate!r}: expected two different gates of & ^ |")
        return self


def biased_circuits(item: Item, rng: random.Random, *, config: BiasedCircuitsConfig) -> str:
    """Write `<answer>c|f|h` where `c^f|h` is right: the habit of a model whose mistakes are not by chance."""
    if not isinstance(item.data.get("table"), str):
        raise InputError(f"demonstrator biased_circuits: item {item.id} is not of source circuits (no data.table)")
    written = "".join(
        config.as_gate if sign == config.taken and rng.random() < config.rate else sign for sign in item.answer
    )
    return f"{ANSWER_OPEN}{written[:-1] if rng.random() < config.broken_rate else written}"
