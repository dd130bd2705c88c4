"""Which samples to verify first: a greedy order by elliptical novelty, and how many calls an order takes.

Shapes: N samples, D features.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from components.measure.intervals import Floats


def novelty_order(features: Floats, regularization: float) -> list[int]:
    """Return the samples [N] in greedy order of h' (regularization I + sum over those before it of h h')^-1 h.

    `features` [N, D] are centred by their mean. Of equal ones the first is taken. The inverse is updated by one rank
    for each sample (Sherman and Morrison), here in the space of the N samples, so that D may be large.
    """
    import numpy as np

    centred = np.asarray(features, dtype=np.float64)
    centred = centred - centred.mean(axis=0)
    # K = H H'; K / regularization is every pair's product under the inverse before anything is picked
    products = centred @ centred.T / regularization
    left, order = list(range(len(products))), []
    while left:
        gains = np.diag(products)[left]
        pick = left[int(np.flatnonzero(gains >= gains.max() * (1 - 1e-12))[0])]
        column = products[:, pick].copy()
        products -= np.outer(column, column) / (1.0 + column[pick])
        order.append(pick)
        left.remove(pick)
    return order


def calls_to_first_right(right: Sequence[bool]) -> int | None:
    """Return how many samples are verified, in this order, until the first right one; None if none is."""
    return next((place for place, found in enumerate(right, start=1) if found), None)


def expected_calls(num_samples: int, num_right: int) -> float | None:
    """Return the expected number of calls in random order, (n + 1) / (c + 1); None if none is right."""
    return (num_samples + 1) / (num_right + 1) if num_right else None
