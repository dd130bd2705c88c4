"""Units of a critique: the flaws that it names, one by one, as text. It is hostile: a unit is compared, no more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from components.tasks.answers import ANSWER_OPEN, extract_answer

BETWEEN, NONE = ", ", "none"
MAX_UNITS = 64


def units_of(critique: str) -> list[str] | None:
    """Return the distinct units of a critique's final answer, in order; [] for `none`, None if it says nothing."""
    text = extract_answer(critique)
    parts = [" ".join(part.split()).casefold() for part in text.split(BETWEEN.strip())][:MAX_UNITS]
    units = [part for part in dict.fromkeys(parts) if part]
    if not units:
        return None
    return [unit for unit in units if unit != NONE]


def written(units: Sequence[str]) -> str:
    """Return the answer that names these units."""
    return BETWEEN.join(units) if units else NONE


def critique_of(units: Sequence[str]) -> str:
    """Return a critique that names these units."""
    return f"{ANSWER_OPEN}{written(units)}"


def voted(critiques: Iterable[Sequence[str]], min_votes: int) -> list[str]:
    """Return the units that at least so many critiques name, sorted."""
    votes = Counter(unit for units in critiques for unit in set(units))
    return sorted(unit for unit, count in votes.items() if count >= min_votes)


def agreement(found: Iterable[str], gold: Iterable[str]) -> tuple[float, float, float]:
    """Return precision, recall and F1 of units; nothing named where there is nothing to name is 1."""
    ours, theirs = set(found), set(gold)
    if not ours and not theirs:
        return 1.0, 1.0, 1.0
    hits = len(ours & theirs)
    precision = hits / len(ours) if ours else 1.0
    recall = hits / len(theirs) if theirs else 1.0
    return precision, recall, 2 * hits / (len(ours) + len(theirs))
