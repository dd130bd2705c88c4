"""Where the curves of two models cross: from which budget on the base finds as much as the trained model.

Source: Yue et al. 2025, Does RL Really Incentivize Reasoning Capacity (arXiv:2504.13837). Shapes: K budgets, B
weightings of the prompts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from components.measure.intervals import Floats

EXACT = 1e-9
"""Differences of means of shares below this are rounding."""


def first_crossing(base: Floats, ours: Floats, ks: Sequence[int]) -> np.ndarray:
    """Return [B] the smallest k where base pass@k [B, K] reaches ours, 0 where it never does.

    Where both solve everything there is no crossing: nothing is left to find for either.
    """
    reached = (base >= ours - EXACT) & (ours < 1 - EXACT)
    reached |= base > ours + EXACT
    first = np.asarray(ks)[reached.argmax(axis=1)]
    return np.where(reached.any(axis=1), first, 0)
