"""How well a suite of tests tells wrong programs from right ones.

Shapes: W wrong programs of a problem, T tests in the order of the suite; kills[w, t]: whether test t fails program w.
Source: Ma et al. 2025, Rethinking Verification for LLM Code Generation (arXiv:2507.06920), TCGBench and SAGA.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Kills = NDArray[np.bool_]
Floats = NDArray[np.float64]


def detected(kills: Kills) -> Floats:
    """Return [T]: for each k the share of wrong programs that some of the first k tests fail; DR@k is its mean."""
    return np.logical_or.accumulate(kills, axis=1).mean(axis=0)


def accurate(kills: Kills) -> Floats:
    """Return [T]: 1 for each k where the first k tests fail all wrong programs, else 0; VAcc@k is its mean."""
    return np.logical_or.accumulate(kills, axis=1).all(axis=0).astype(float)


def area(values: Floats) -> float:
    """Return the area under values at k = 1 ... N by trapezoids, over N - 1: 1 where all are 1. AUC-AccN of VAcc@k."""
    return float(values[0]) if len(values) == 1 else float(((values[1:] + values[:-1]) / 2).mean())


def patterns(kills: Kills) -> int:
    """Return DEPC: the number of different sets of wrong programs, not empty, that a test fails."""
    return len({column.tobytes() for column in kills.T if column.any()})


def effective_number(count: int, correlation: float) -> float:
    """Return how many independent tests so many correlated ones are worth: k / (1 + (k - 1) rho)."""
    return count / (1 + (count - 1) * correlation)
