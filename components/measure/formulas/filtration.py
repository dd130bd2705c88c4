"""How well the rewards of filtered responses tell their true scores.

Shapes: M responses of all prompts, C bins.
"""

from __future__ import annotations

import numpy as np

from components.measure.intervals import Floats


def r_squared(rewards: Floats, truth: Floats, weights: Floats, bins: int) -> float:
    """Return R^2 of a line through the mean reward and the mean truth of bins of equal weight, by order of reward.

    Responses that lie across a border are divided between bins. NaN where there are fewer responses of any weight than
    bins, or where either mean does not vary. Shapes: all [M].
    """
    kept = weights > 0
    order = np.argsort(rewards[kept], kind="stable")
    x, y, w = (values[kept][order] for values in (rewards, truth, weights))
    if len(x) < bins:
        return float("nan")
    ends = np.cumsum(w)
    edges = ends[-1] * np.arange(bins + 1) / bins

    def binned(values: Floats) -> Floats:
        """Return [C]: means of values over bins, less the mean of these."""
        means = np.diff(np.interp(edges, np.r_[0.0, ends], np.r_[0.0, np.cumsum(w * values)])) * bins / ends[-1]
        return np.asarray(means - means.mean())

    spread_x, spread_y = binned(x), binned(y)
    squares = float((spread_x**2).sum() * (spread_y**2).sum())
    return float((spread_x * spread_y).sum()) ** 2 / squares if squares > 1e-24 else float("nan")
