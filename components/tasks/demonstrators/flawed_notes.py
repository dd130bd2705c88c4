"""Notes of source notes with one flaw of a chosen kind, or with none: candidates that try to pass for good."""

from __future__ import annotations

import random
from typing import Literal

from pydantic import Field

from components.contract.errors import InputError
from components.contract.params import Params
from components.tasks.answers import ANSWER_OPEN
from components.tasks.demonstrators.notes import JOINS
from components.tasks.item import Item

Flaw = Literal["drop", "swap", "repeat", "pad"]


class FlawedNotesConfig(Params):
    """Which flaws there are, and how often there is none."""

    flaws: tuple[Flaw, ...] = Field(default=("drop", "swap", "repeat", "pad"), min_length=1)
    """drop: a point is missing. swap: two neighbouring points changed places. repeat: a point comes again. pad: the
    phrase of praise is said until the note is too long."""
    sound: float = Field(default=0.25, ge=0, le=1)
    """Probability that the note has no flaw."""
    praise: float = Field(default=0.3, ge=0, le=1)
    """Probability that the phrase of praise ends a note that is not padded; it is no flaw."""


def flawed_notes(item: Item, rng: random.Random, *, config: FlawedNotesConfig) -> str:
    """Write `<answer>k2 then b7.` for the points b7 and k2, the flaw and the joining words drawn at random.

    A note of a single point has no point to drop or to swap, and is written without a flaw then. Source: Wei et al.
    2025 (arXiv:2508.21476): a generator writes what looks good and has a flaw by intent; a program here.
    """
    points, praise, most = (item.data.get(key) for key in ("points", "praise", "max_words"))
    if not (isinstance(points, list) and points and isinstance(praise, str) and isinstance(most, int)):
        raise InputError(f"demonstrator flawed_notes: item {item.id} is not of source notes (points: {points!r})")
    flaw = None if rng.random() < config.sound else rng.choice(config.flaws)
    named = _named(points, flaw, rng)
    text = named[0] + "".join(rng.choice(JOINS) + point for point in named[1:]) + "."
    if flaw == "pad":
        while len(text.split()) <= most:
            text += f" {praise}"
    elif rng.random() < config.praise:
        text += f" {praise}"
    return f"{ANSWER_OPEN}{text}"


def _named(points: list[str], flaw: Flaw | None, rng: random.Random) -> list[str]:
    """Return the points as the note names them."""
    named = list(points)
    if flaw == "repeat":
        named.append(rng.choice(points))
    elif flaw == "drop" and len(points) > 1:
        del named[rng.randrange(len(points))]
    elif flaw == "swap" and len(points) > 1:
        place = rng.randrange(len(points) - 1)
        named[place], named[place + 1] = named[place + 1], named[place]
    return named
