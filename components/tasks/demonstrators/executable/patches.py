"""Edits for items of source patches, some of them careless."""

from __future__ import annotations

import random

from pydantic import Field

from components.contract.errors import InputError
from components.contract.params import Params
from components.tasks.answers import ANSWER_OPEN
from components.tasks.domains.edits import Edit, render, texts_of
from components.tasks.domains.stack import OPERATIONS
from components.tasks.item import Item
from components.tasks.verdict import BrokenItem


class PatchesDemonstratorConfig(Params):
    """How careful the editor is."""

    error_rate: float = Field(default=0.0, ge=0, le=1)
    """Probability that an operation of the new line is replaced by another."""
    wrong_line: float = Field(default=0.0, ge=0, le=1)
    """Probability that another line is edited, where there is one."""


def patches(item: Item, rng: random.Random, *, config: PatchesDemonstratorConfig) -> str:
    """Write `<answer>` and the edit of the broken line, in the row's style."""
    name = item.data.get("broken")
    try:
        text, fixed, style = texts_of(item)
    except BrokenItem as error:
        raise InputError(f"demonstrator patches: item {item.id} is not of source patches: {error}") from error
    lines = list(zip(text.split("\n"), fixed.split("\n"), strict=True))
    others = [pair for pair in lines if not pair[0].startswith(f"{name} ")]
    (right,) = (pair for pair in lines if pair[0].startswith(f"{name} "))
    old, new = rng.choice(others) if others and rng.random() < config.wrong_line else right
    head, _, program = new.partition(" ")
    written = "".join(_other(sign, rng) if rng.random() < config.error_rate else sign for sign in program)
    return f"{ANSWER_OPEN}{render([Edit((old,), (f'{head} {written}',))], style)}"


def _other(operation: str, rng: random.Random) -> str:
    return rng.choice([other for other in OPERATIONS if other != operation])
