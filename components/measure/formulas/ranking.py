"""Statistics of stated confidences against outcomes, for many weightings of the same predictions at once.

Shapes: N predictions, B weightings. A weighting says how often each prediction counts, as a bootstrap does.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from components.measure.intervals import Floats

Statistic = Callable[[Floats], Floats]
"""Weights [B, N] -> [B], NaN where it is undefined."""


def auroc(confidence: Floats, right: Floats) -> Statistic:
    """Return the chance that a right prediction has a higher confidence than a wrong one, ties half (Mann-Whitney).

    NaN where all are right, or all are wrong.
    """
    order = np.argsort(confidence, kind="stable")
    values, outcome = confidence[order], right[order]
    starts = np.flatnonzero(np.r_[True, values[1:] != values[:-1]])

    def statistic(weights: Floats) -> Floats:
        ordered = weights[:, order]
        hits = np.add.reduceat(ordered * outcome, starts, axis=1)
        misses = np.add.reduceat(ordered * (1 - outcome), starts, axis=1)
        below = np.cumsum(misses, axis=1) - misses / 2
        pairs = hits.sum(axis=1) * misses.sum(axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(pairs > 0, (hits * below).sum(axis=1) / pairs, np.nan)

    return statistic


def calibration_error(confidence: Floats, right: Floats, member: np.ndarray, num_bins: int) -> Statistic:
    """Return the expected calibration error over bins: sum over bins of |sum of outcomes - sum of confidences| / N."""
    gaps = np.zeros((len(confidence), num_bins))
    gaps[np.arange(len(confidence)), member] = right - confidence

    def statistic(weights: Floats) -> Floats:
        return np.abs(np.einsum("bn,nk->bk", weights, gaps)).sum(axis=1) / weights.sum(axis=1)

    return statistic


def equal_width(confidence: Floats, num_bins: int) -> np.ndarray:
    """Return the bin of each confidence: (low, high] of equal width, the first with 0."""
    edges = np.linspace(0.0, 1.0, num_bins + 1)
    return np.searchsorted(edges[1:-1], confidence, side="left")


def equal_mass(confidence: Floats, num_bins: int) -> np.ndarray:
    """Return the bin of each confidence, of equally many as far as ties allow: equal confidences share a bin."""
    ordered = np.sort(confidence)
    edges = ordered[(np.arange(1, num_bins) * len(ordered)) // num_bins]
    return np.searchsorted(np.unique(edges), confidence, side="right")


def weighted_mean(values: Floats) -> Statistic:
    """Return the weighted mean of values [N], NaN where nothing counts."""

    def statistic(weights: Floats) -> Floats:
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.einsum("bn,n->b", weights, values) / weights.sum(axis=1)

    return statistic
