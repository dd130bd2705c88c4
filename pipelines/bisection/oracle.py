"""The oracle: whether a mixture is like GOOD or like BAD, by its distance from their middle, paired by seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from components.measure.intervals import Interval
from pipelines.bisection.search import Verdict
from pipelines.methods.looks import Look, plan_looks

GROWTH = 1.6
"""By how much each look has more seeds than the one before."""


def looks_of(first: int, last: int) -> tuple[Look, ...]:
    """Return the looks from the first number of seeds to the last; all of them together err on a side by 2 %."""
    counts = [first]
    while counts[-1] < last:
        counts.append(min(last, max(counts[-1] + 1, round(counts[-1] * GROWTH))))
    return plan_looks(counts)


@dataclass(frozen=True)
class Judged:
    """A verdict with what it rests on."""

    verdict: Verdict
    interval: Interval
    """Of the distance from the middle between the ends, in the metric's units; above 0 is towards BAD's side."""


def judge(values: Sequence[float], good: Sequence[float], bad: Sequence[float], sign: float, look: Look) -> Judged:
    """Return what a mixture is like from its values and those of the ends at the same seeds.

    `sign` is that of BAD less GOOD. A value halfway between the ends is neither good nor bad.
    """
    at = [sign * (value - (a + b) / 2) for value, a, b in zip(values, good, bad, strict=True)]
    found = look.interval(at)
    verdict = Verdict.BAD if found.low > 0 else Verdict.GOOD if found.high < 0 else Verdict.UNDECIDED
    return Judged(verdict, found)
