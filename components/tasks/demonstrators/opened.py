"""What another demonstrator writes, behind an opener without content; now and then the opener is all there is."""

from __future__ import annotations

import random
from typing import Annotated

from pydantic import Field, field_validator

from components.contract.errors import InputError
from components.contract.operators import OperatorSpec
from components.contract.params import Params
from components.tasks.item import Item
from components.tasks.slots import DEMONSTRATOR


class OpenedConfig(Params):
    """Whose text, what stands before it, and how often nothing follows."""

    demonstrator: Annotated[OperatorSpec, DEMONSTRATOR] = OperatorSpec(name="gold")
    """Who writes, with settings of its own."""
    openers: tuple[str, ...] = Field(default=("Solution", "Thought process:"), min_length=1)
    """One of them, each as often, stands before the text, with a space."""
    bare: float = Field(default=0.0, ge=0, le=1)
    """Probability that nothing follows the opener."""

    @field_validator("demonstrator")
    @classmethod
    def _known(cls, spec: OperatorSpec) -> OperatorSpec:
        spec.resolve()
        return spec

    @field_validator("openers")
    @classmethod
    def _say_something(cls, openers: tuple[str, ...]) -> tuple[str, ...]:
        if not all(opener.strip() for opener in openers):
            raise InputError("openers: every opener has a character that is no space")
        return openers


def opened(item: Item, rng: random.Random, *, config: OpenedConfig) -> str:
    """Write `Solution <answer>dcba` where the inner demonstrator writes `<answer>dcba`; at rate `bare` only `Solution`.

    Zhao et al. 2025 (arXiv:2507.08794): the openers that judges mark right, and that a policy collapses to.
    """
    written = config.demonstrator.resolve()(item, rng)
    if not isinstance(written, str):
        raise InputError(f"demonstrator opened: {config.demonstrator.name} writes several turns, one text is needed")
    opener = rng.choice(config.openers)
    return opener if rng.random() < config.bare else f"{opener} {written}"
