"""What a judge says, and how several sayings become one. A judge that could not be read has FAILED: never a number."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Aggregate = Literal["mean", "median", "majority"]
Orders = Literal["mean", "agree"]
TIE = 0.5


@dataclass(frozen=True)
class Judgement:
    """A value in [0, 1], or why there is none."""

    value: float | None
    why: str = ""

    @property
    def failed(self) -> bool:
        """Return whether there is no value."""
        return self.value is None


def failed(why: str) -> Judgement:
    """Return the judgement of a judge that could not be read."""
    return Judgement(None, why)


def together(sayings: Sequence[Judgement], how: Aggregate) -> Judgement:
    """Return one judgement of several samples: of those that could be read, if these are more than half.

    majority: the most frequent value; FAILED where two are equally frequent.
    """
    values = [one.value for one in sayings if one.value is not None]
    if 2 * len(values) <= len(sayings):
        return failed(next(one.why for one in sayings if one.failed) if sayings else "nothing was said")
    if how == "mean":
        return Judgement(math.fsum(values) / len(values))
    if how == "median":
        return Judgement(statistics.median(values))
    (top, count), *others = Counter(values).most_common(2)
    return failed("votes are equal") if others and others[0][1] == count else Judgement(top)


def both_orders(shown_first: Judgement, shown_second: Judgement, how: Orders) -> Judgement:
    """Return how sure a judge is that a response is better than another one, asked in both orders.

    `shown_first` is the chance of the response when it was shown first, `shown_second` of the same one, shown second.
    mean: their mean. agree: their mean where both prefer the same side, else a tie (Zheng et al. 2023,
    arXiv:2306.05685, section 3.4). FAILED where either order has.
    """
    for one in (shown_first, shown_second):
        if one.failed:
            return one
    assert shown_first.value is not None and shown_second.value is not None
    first, second = shown_first.value, shown_second.value
    if how == "agree" and (first > TIE) - (first < TIE) != (second > TIE) - (second < TIE):
        return Judgement(TIE)
    return Judgement((first + second) / 2)


def mean_ranks(rankings: Sequence[Sequence[int] | None], count: int) -> list[Judgement]:
    """Return of each of `count` responses its mean share of others ranked behind it.

    A ranking holds the responses' places, best first; all have FAILED where one is None.
    """
    if count < 2 or any(ranking is None for ranking in rankings) or not rankings:
        return [failed("a ranking cannot be read") for _ in range(count)]
    totals = [0.0] * count
    for ranking in rankings:
        assert ranking is not None
        for position, place in enumerate(ranking):
            totals[place] += (count - 1 - position) / (count - 1)
    return [Judgement(total / len(rankings)) for total in totals]
