"""Responses that state a confidence: a format for a policy to begin from, with confidences that mean nothing yet."""

from __future__ import annotations

import random
from typing import Annotated

from pydantic import Field

from components.contract.operators import OperatorSpec
from components.contract.params import Params
from components.tasks.answers import ANSWER_CLOSE, ANSWER_OPEN
from components.tasks.item import Item
from components.tasks.slots import DEMONSTRATOR


class ConfidentConfig(Params):
    """Who answers, and which numbers are stated."""

    demonstrator: Annotated[OperatorSpec, DEMONSTRATOR] = OperatorSpec(name="gold")
    """Writes the response that the confidence follows."""
    tag: Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]*$", max_length=40)] = "conf"
    """The tag before the number, without its brackets."""
    highest: int = Field(default=10, ge=1)
    """Numbers from 0 to this are stated, each as often as the others: a scale for whoever reads them."""


def confident(item: Item, rng: random.Random, *, config: ConfidentConfig) -> str:
    """Write the inner response and `</answer><conf>7`: a number by chance, so that only a reward gives it a meaning."""
    written = str(config.demonstrator.resolve()(item, rng))
    close = ANSWER_CLOSE if ANSWER_OPEN in written and ANSWER_CLOSE not in written else ""
    return f"{written}{close}<{config.tag}>{rng.randint(0, config.highest)}"
