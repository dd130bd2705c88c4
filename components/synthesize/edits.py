"""Edits of a list of principles, and which of them mends most errors on labelled examples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

Mask = int
"""One bit for each example."""


@dataclass(frozen=True)
class Edit:
    """A list after an edit."""

    names: tuple[str, ...]
    told: str
    """What was edited, in words; empty for the list as it was."""
    errors: int
    """Examples whose label is not the list's verdict."""


def mask_of(marks: Sequence[bool]) -> Mask:
    """Return the marks of the examples as one number."""
    return sum(1 << place for place, mark in enumerate(marks) if mark)


def errors_of(names: Sequence[str], held: Mapping[str, Mask], good: Mask, count: int) -> int:
    """Return how many of `count` examples a list gets wrong: it passes those that hold to all of its principles."""
    passed = (1 << count) - 1
    for name in names:
        passed &= held[name]
    return (passed ^ good).bit_count()


def edited(names: Sequence[str], held: Mapping[str, Mask], good: Mask, count: int, *, least: int, most: int) -> Edit:
    """Return the single edit with the fewest errors, or the list as it is if none mends at least `least` of them.

    A principle is added, replaced by another, or removed; of equal edits the first in this order counts, then in the
    order of `held`. A list keeps at least one principle, and nothing is added to one with `most`.
    """
    now = Edit(tuple(names), "", errors_of(names, held, good, count))
    best = now
    for new, told in _edits(tuple(names), tuple(held), most):
        if (errors := errors_of(new, held, good, count)) < best.errors:
            best = Edit(new, told, errors)
    return best if now.errors - best.errors >= max(least, 1) else now


def _edits(names: tuple[str, ...], known: tuple[str, ...], most: int) -> Iterator[tuple[tuple[str, ...], str]]:
    others = [name for name in known if name not in names]
    for name in others if len(names) < most else ():
        yield (*names, name), f"added {name}"
    for place, old in enumerate(names):
        for name in others:
            yield (*names[:place], name, *names[place + 1 :]), f"replaced {old} by {name}"
    for place, old in enumerate(names) if len(names) > 1 else ():
        yield names[:place] + names[place + 1 :], f"removed {old}"
