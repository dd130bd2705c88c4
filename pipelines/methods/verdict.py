"""Verdicts: whether an effect over seeds matches a claim, from its interval alone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from enum import StrEnum

from components.measure.intervals import Bootstrap, Interval

RESAMPLES = 10_000
MIN_SEEDS = 3
"""With fewer seeds an interval is meaningless, and the verdict is `not seen`."""
ROUNDING = 1e-9
"""An effect this close to a margin counts as at the margin: sums of floats that should cancel leave 1e-15."""


class Verdict(StrEnum):
    """How a measured effect relates to a claim."""

    SEEN = "seen"
    NOT_SEEN = "not seen"
    OPPOSITE = "opposite"


def effect_interval(effects: Sequence[float]) -> Interval:
    """Return the mean effect over seeds with its percentile bootstrap interval (95 %, seeds resampled).

    With S seeds the ends are those of S^S equally likely resamples; at three seeds that is the range of the effects.
    """
    if len(effects) == 1:  # resampling one value would look like certainty
        return Interval(effects[0], -math.inf, math.inf, 1)
    return Bootstrap(resamples=RESAMPLES).mean_interval(effects)


def judge(direction: str, margin: float, effect: Interval) -> Verdict:
    """Return the verdict on an effect.

    higher: `seen` if the whole interval lies above +margin, `opposite` if it lies below -margin. not_lower: `seen` if
    it lies above -margin, `opposite` if it lies below that. lower and not_higher are their mirror images. same: `seen`
    if it lies within +-margin, `opposite` if it lies outside. All else is `not seen`.
    """
    if effect.n < MIN_SEEDS or not math.isfinite(effect.value):
        return Verdict.NOT_SEEN
    low, high = effect.low, effect.high
    if direction in ("lower", "not_higher"):
        low, high = -high, -low
    if direction == "same":
        seen, opposite = -margin < low and high < margin, low > margin or high < -margin
    elif direction in ("higher", "lower"):
        seen, opposite = low > margin + ROUNDING, high < -margin - ROUNDING
    else:
        seen, opposite = low > -margin, high < -margin - ROUNDING
    return Verdict.SEEN if seen else Verdict.OPPOSITE if opposite else Verdict.NOT_SEEN


def overall(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the verdict on a claim of several parts: seen if all are; opposite if any part is."""
    found = list(verdicts)
    if Verdict.OPPOSITE in found:
        return Verdict.OPPOSITE
    return Verdict.SEEN if all(verdict is Verdict.SEEN for verdict in found) else Verdict.NOT_SEEN
