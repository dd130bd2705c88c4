"""Paired tests: two models on the same prompts.

Shapes: P prompts, B resamples. Pairing removes the spread between easy and hard prompts, which is most of the spread.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from components.contract.errors import InputError
from components.measure.intervals import Bootstrap, Floats, Interval

MAX_FLIPPED_CELLS = 1 << 22


@dataclass(frozen=True)
class Comparison:
    """The difference between two models on the same prompts, and its significance."""

    difference: Interval
    """Mean of ours minus theirs, with its paired bootstrap interval."""
    p_permutation: float
    """Two-sided p of the sign-flip permutation test of the mean difference."""
    p_mcnemar: float
    """Two-sided exact McNemar p over prompts that are solved by one model and not by the other."""
    only_ours: int
    """Prompts that only our model solves (more than half of its samples right)."""
    only_theirs: int

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {
            "difference": self.difference.to_json(),
            "p_permutation": self.p_permutation,
            "p_mcnemar": self.p_mcnemar,
            "only_ours": self.only_ours,
            "only_theirs": self.only_theirs,
        }


def compare(ours: Sequence[float] | Floats, theirs: Sequence[float] | Floats, bootstrap: Bootstrap) -> Comparison:
    """Compare per-prompt values (pass rates) of two models, [P] each, in the same order of prompts.

    Prompts where either is NaN are left out. Raises InputError when no prompt is left.
    """
    first, second = np.asarray(ours, dtype=np.float64), np.asarray(theirs, dtype=np.float64)
    both = ~(np.isnan(first) | np.isnan(second))
    first, second = first[both], second[both]
    if not first.size:
        raise InputError("the two evaluations share no prompt with verified samples; compare them on the same dataset")
    solved_first, solved_second = first > 0.5, second > 0.5
    only_ours = int((solved_first & ~solved_second).sum())
    only_theirs = int((~solved_first & solved_second).sum())
    return Comparison(
        difference=bootstrap.mean_interval(first - second),
        p_permutation=permutation_p_value(first - second, seed=bootstrap.seed),
        p_mcnemar=mcnemar_p_value(only_ours, only_theirs),
        only_ours=only_ours,
        only_theirs=only_theirs,
    )


def mcnemar_p_value(only_first: int, only_second: int) -> float:
    """Return the exact two-sided p of McNemar's test from the two discordant counts (binomial with p = 1/2)."""
    from scipy.special import bdtr

    discordant = only_first + only_second
    if not discordant:
        return 1.0
    return min(1.0, 2.0 * float(bdtr(min(only_first, only_second), discordant, 0.5)))


def permutation_p_value(differences: Sequence[float] | Floats, *, seed: int, permutations: int = 10_000) -> float:
    """Return the two-sided p of "the mean difference is 0" under random sign flips of `differences` [P].

    All 2^P flips are tried when there are no more than `permutations`; otherwise that many are drawn, and the observed
    one is counted in, so that p is never 0 (Phipson and Smyth 2010).
    """
    moved = np.asarray(differences, dtype=np.float64)
    moved = moved[moved != 0]
    if not moved.size:
        return 1.0
    least = abs(math.fsum(moved)) * (1 - 1e-12)  # rounding must not make the observed flip miss itself
    if moved.size <= math.log2(permutations):
        flips = 1.0 - 2.0 * ((np.arange(1 << moved.size)[:, None] >> np.arange(moved.size)) & 1)
        return float((np.abs(flips @ moved) >= least).mean())
    generator = np.random.default_rng((seed, 1))
    block = max(1, MAX_FLIPPED_CELLS // moved.size)
    reached = 0
    for start in range(0, permutations, block):
        rows = min(block, permutations - start)
        flips = generator.integers(0, 2, (rows, moved.size), dtype=np.int8) * 2.0 - 1.0
        reached += int((np.abs(flips @ moved) >= least).sum())
    return (reached + 1) / (permutations + 1)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted for testing them all at once (Holm 1979), in the order given."""
    order = sorted(range(len(p_values)), key=lambda i: (p_values[i], i))
    adjusted, highest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = highest
    return adjusted
