"""Ratings that judges write: a whole number as the final answer, between two bounds. What they read and write is
hostile."""

from __future__ import annotations

from collections.abc import Sequence

from components.synthesize.asking import ask
from components.synthesize.parsing import unusable
from components.synthesize.shown import as_shown
from components.synthesize.writers import Text, Writers
from components.tasks.answers import extract_answer
from components.tasks.item import Item

MAX_DIGITS = 4


def rating_request(item: Item, number: int, question: str, response: str, writers: Writers) -> Item:
    """Return what judges are asked of one response; its own id gives a program's errors their own random numbers."""
    request = ask(item, "rate", question, shown={"response": as_shown(response, writers)})
    return request.model_copy(update={"id": f"{item.id}-{number}"})


def mean_rating(answers: Sequence[Text | None], low: int, high: int) -> float | None:
    """Return the mean of the ratings that can be read and lie in [low, high]; None where there is none."""
    said = [extract_answer(one.text).strip() for one in answers if one is not None and not unusable(one)]
    found = [int(text) for text in said if text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS]
    found = [number for number in found if low <= number <= high]
    return sum(found) / len(found) if found else None
