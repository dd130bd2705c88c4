"""Looks: when a comparison over seeds may end, and how much error each look may spend.

A comparison that stops as soon as its interval is clear errs more often than a single look of the same confidence. Here
the error of one side, `ALPHA`, is divided over the looks in proportion to the seeds that each adds, so by the union
bound the whole rule errs at most that often, whatever depends on what (Bonferroni; Lan and DeMets 1983 give the
spending view).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from components.measure.intervals import Interval, seed_interval

ALPHA = 0.02
"""Bound on the probability of a false `seen`, and on that of a false `opposite`, of one measure over all looks."""
LOOKS = (5, 8, 12, 20)
"""Seeds at which a comparison is judged; no verdict before the first, none after the last."""
POWER = 0.8
"""Chance of a verdict that the number of seeds proposed for an undecided comparison would give."""


@dataclass(frozen=True)
class Look:
    """One look: the seeds that it sees and the share of `ALPHA` that it spends."""

    seeds: int
    share: float

    @property
    def alpha(self) -> float:
        """Return the error that this look may make on one side."""
        return ALPHA * self.share

    def interval(self, effects: Sequence[float]) -> Interval:
        """Return Student's t interval of the mean of the first `seeds` effects, at this look's confidence."""
        return seed_interval(effects[: self.seeds], confidence=1 - 2 * self.alpha)


def plan_looks(seeds: Sequence[int]) -> tuple[Look, ...]:
    """Return looks at these numbers of seeds, ascending; each spends what it adds as a share of the last."""
    steps = [last - first for first, last in pairwise((0, *seeds))]
    return tuple(Look(count, step / seeds[-1]) for count, step in zip(seeds, steps, strict=True))


def tail(effects: Sequence[float], bound: float) -> float:
    """Return the one-sided p-value of the mean effect being at most `bound`, by Student's t.

    Where all effects are equal there is no spread to judge by: then that of the sign test, 2**-n.
    """
    found = seed_interval(effects)
    spread = (found.high - found.low) / 2
    if not math.isfinite(spread):
        return 1.0
    if spread <= abs(found.value) * 1e-12:
        return 0.5 ** len(effects) if found.value > bound else 1.0
    from scipy.special import stdtr, stdtrit

    scale = spread / float(stdtrit(len(effects) - 1, 0.975))
    return float(stdtr(len(effects) - 1, (bound - found.value) / scale))


def seeds_needed(effects: Sequence[float], floor: float, look: Look) -> int | None:
    """Return how many seeds would decide with probability `POWER` were the mean and spread as seen; None if too many.

    By the normal approximation; beyond the floor towards `seen` or `opposite`, within it towards `no effect`.
    """
    import numpy as np
    from scipy.special import ndtri

    sample = np.asarray(effects, dtype=np.float64)
    distance = abs(abs(float(sample.mean())) - floor)
    reach = float(ndtri(1 - look.alpha) + ndtri(POWER)) * float(sample.std(ddof=1))
    return math.ceil((reach / distance) ** 2) if distance > reach / 100 else None
