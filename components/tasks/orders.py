"""Orders of the same things by several judges: what two have in common, and how right one is."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

RANKED, JUDGED = "ranked", "judged"
"""Keys of an item's data: its responses in an order that two agree on, and as the judge ranks them, the best first."""


def common_order(first: Sequence[int], second: Sequence[int]) -> list[int]:
    """Return the longest sub-order of two orders of the same distinct things, the best first.

    Of equally long ones it is the one whose things stand earliest in `first`, compared from its beginning. Source:
    CycleAlign (arXiv:2310.16271), agreement ranking; how ties are broken is ours.
    """
    place = {one: number for number, one in enumerate(second)}
    if sorted(first) != sorted(second):
        raise ValueError("two orders of other things")
    tails: list[list[int]] = []  # the best sub-order from each place of `first` on, last place first
    for one in reversed(first):
        behind = [tail for tail in reversed(tails) if place[tail[0]] > place[one]]
        tails.append([one, *max(behind, key=len, default=[])])
    return max(reversed(tails), key=len, default=[])


def right_share(scores: Sequence[float]) -> float | None:
    """Return the share of pairs of an order, given by its scores from the best on, that are in the right order.

    Pairs of equal scores do not count; None where all are equal.
    """
    found = [before > after for before, after in combinations(scores, 2) if before != after]
    return sum(found) / len(found) if found else None
