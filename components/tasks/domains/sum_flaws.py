"""Flaws in worked sums: which step has what wrong, against the expression. A flaw is written `2 sign`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from components.tasks.answers import path_to_answer
from components.tasks.item import Item

TERM, SIGN, SLIP = "term", "sign", "slip"
KINDS = (TERM, SIGN, SLIP)
"""Another number than the expression has, the other sign, and a result that does not follow."""
EXPRESSION = re.compile(r"-?\d{1,9}( [+-] \d{1,9})*")
STEP = re.compile(r"(-?\d{1,9})([+-])(\d{1,9})=(-?\d{1,9})")
MAX_STEPS = 64
"""Steps of a response that are read: what a model wrote may be of any length."""


class Step(NamedTuple):
    """One step as it is written."""

    start: int
    sign: str
    number: int
    result: int

    def __str__(self) -> str:
        return f"{self.start}{self.sign}{self.number}={self.result}"

    @property
    def true(self) -> int:
        """Return what start, sign and number give."""
        return self.start + (self.number if self.sign == "+" else -self.number)


def terms_of(item: Item) -> tuple[int, list[tuple[str, int]]] | None:
    """Return the first number, and sign and number of each that follows; None for an item that is no chain_sum."""
    metadata: Any = item.data.get("metadata")
    expression = metadata.get("expression") if isinstance(metadata, dict) else None
    if not isinstance(expression, str) or not EXPRESSION.fullmatch(expression):
        return None
    parts = expression.split(" ")
    return int(parts[0]), list(zip(parts[1::2], map(int, parts[2::2]), strict=True))


def steps_of(response: str) -> list[Step | None]:
    """Return the steps that a response writes before its answer; None for what is no step."""
    found = [STEP.fullmatch(text) for text in path_to_answer(response).split()[:MAX_STEPS]]
    return [None if one is None else Step(int(one[1]), one[2], int(one[3]), int(one[4])) for one in found]


def flaws_of(first: int, due: Sequence[tuple[str, int]], response: str) -> list[tuple[int, str]]:
    """Return number from 1 and kind of each flaw, in order; a step that is missing, or cannot be read, is a slip."""
    written, total, found = steps_of(response), first, []
    for at, (sign, number) in enumerate(due):
        step = written[at] if at < len(written) else None
        if step is None:
            found.append((at + 1, SLIP))
            continue
        wrong = (step.number != number, step.sign != sign, step.result != step.true or step.start != total)
        found += [(at + 1, kind) for kind, is_wrong in zip(KINDS, wrong, strict=True) if is_wrong]
        total = step.result
    return found
