"""A critic of notes: it names every point that is not where it should be."""

from __future__ import annotations

import random

from pydantic import Field

from components.contract.errors import InputError
from components.contract.params import Params
from components.tasks.answers import ANSWER_OPEN, extract_answer
from components.tasks.demonstrators.chain_sum_trace import THINK_OPEN
from components.tasks.item import Item
from components.tasks.keywords import keyword_hits

MARKS, WORDS = ("ok", "no"), ("right", "wrong")


class NoteCritiqueConfig(Params):
    """How careful the critic is."""

    error_rate: float = Field(default=0.0, ge=0, le=1)
    """Probability that the mark of a point is the other one; the verdict follows from the marks."""


def note_critique(item: Item, rng: random.Random, *, config: NoteCritiqueConfig) -> str:
    """Check `data["response"]` to an item of source notes point by point: `<think>b7 ok k2 no<answer>wrong`.

    A point is `ok` if it is the next one that the note names. The verdict is `right` if all are, none is left over and
    the note is not too long: that of verifier notes. Source: MM-RLHF (arXiv:2502.10391): critiques give the reasons of
    a ranking; its writers are people, this is a program in their place.
    """
    points, most, response = (item.data.get(key) for key in ("points", "max_words", "response"))
    if not (isinstance(points, list) and points and isinstance(most, int) and isinstance(response, str)):
        raise InputError(f"demonstrator note_critique: item {item.id} has no note to criticise (data.response, points)")
    text = extract_answer(response)
    left = keyword_hits(text, points)
    marks = []
    for point in points:
        is_next = bool(left) and left[0] == point.casefold()
        left = left[1:] if is_next else left
        marks.append(is_next != (rng.random() < config.error_rate))
    is_right = all(marks) and not left and len(text.split()) <= most
    checks = " ".join(f"{point} {MARKS[not mark]}" for point, mark in zip(points, marks, strict=True))
    return f"{THINK_OPEN}{checks}{ANSWER_OPEN}{WORDS[not is_right]}"
