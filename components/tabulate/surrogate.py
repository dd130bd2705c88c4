"""A surface over mixture weights, fitted to what short runs reached, and its highest point.

Shapes: N mixtures, M domains, F features. y(w) = a + b w + w C w, by ridge least squares without a penalty on a
(MoDoMoDo, Liang et al. 2025, arXiv:2505.24871, section 4).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from components.measure.intervals import Floats

RIDGES = tuple(10.0**power for power in range(-6, 3))
MAX_POINTS = 100_000
SMALLEST_STEP = 1e-4


@dataclass(frozen=True)
class Surface:
    """A fitted surface."""

    quadratic: bool
    ridge: float
    intercept: float
    coefficients: Floats

    def __call__(self, weights: Floats) -> Floats:
        """Return the predictions [N] for weights [N, M]."""
        return self.intercept + features(weights, quadratic=self.quadratic) @ self.coefficients


def features(weights: Floats, *, quadratic: bool) -> Floats:
    """Return [N, F]: the weights and, if quadratic, their products in pairs, squares included."""
    if not quadratic:
        return weights
    pairs = itertools.combinations_with_replacement(range(weights.shape[1]), 2)
    return np.hstack([weights, np.stack([weights[:, i] * weights[:, j] for i, j in pairs], axis=1)])


def fit_surface(weights: Floats, values: Floats, *, quadratic: bool, ridge: float | None = None) -> Surface:
    """Return the surface through `values` [N] at `weights` [N, M]; without a ridge, the one of least held-out error."""
    found = features(weights, quadratic=quadratic)
    if ridge is None:
        ridge = min(RIDGES, key=lambda one: float((left_out_residuals(found, values, one) ** 2).sum()))
    centre, mean = found.mean(axis=0), float(values.mean())
    coefficients = _solve(found - centre, values - mean, ridge)
    return Surface(quadratic, ridge, mean - float(centre @ coefficients), coefficients)


def left_out_residuals(found: Floats, values: Floats, ridge: float) -> Floats:
    """Return [N]: each value minus its prediction from all others, by the hat matrix; inf where that is undefined."""
    centred = found - found.mean(axis=0)
    gram = centred.T @ centred + ridge * np.eye(found.shape[1])
    leverage = 1 / len(values) + np.einsum("nf,fn->n", centred, np.linalg.solve(gram, centred.T))
    residuals = values - values.mean() - centred @ _solve(centred, values - values.mean(), ridge)
    left = 1 - leverage
    return np.where(left > 1e-9, residuals / np.where(left > 1e-9, left, 1.0), np.inf)


def held_out_predictions(weights: Floats, values: Floats, *, quadratic: bool, ridge: float | None = None) -> Floats:
    """Return [N]: each mixture's prediction by a surface fitted to the others, its ridge chosen by them alone."""
    predictions = np.empty(len(values))
    for left in range(len(values)):
        others = np.arange(len(values)) != left
        surface = fit_surface(weights[others], values[others], quadratic=quadratic, ridge=ridge)
        predictions[left] = surface(weights[left : left + 1])[0]
    return predictions


def rank_correlation(first: Floats, second: Floats) -> float | None:
    """Return Spearman's rank correlation; None where one side is constant."""
    from scipy.stats import rankdata

    ranks = np.stack([rankdata(first), rankdata(second)])
    if (ranks == ranks[:, :1]).all(axis=1).any():
        return None
    return float(np.corrcoef(ranks)[0, 1])


def highest_point(surface: Surface, num_domains: int) -> Floats:
    """Return the weights [M], from 0 and of sum 1, at which a surface is highest.

    The best point of a regular grid on the simplex, moved by ever smaller exchanges between two domains.
    """
    grid = np.array(list(_grid(num_domains)))
    best = grid[int(np.argmax(surface(grid)))]
    step = 0.5 / _resolution(num_domains)
    while step >= SMALLEST_STEP:
        moved = np.array(list(_exchanges(best, step)))
        found = surface(moved) if len(moved) else np.array([])
        if found.size and found.max() > float(surface(best[None])[0]) + 1e-12:
            best = moved[int(np.argmax(found))]
        else:
            step /= 2
    return best / best.sum()


def _solve(centred: Floats, values: Floats, ridge: float) -> Floats:
    return np.asarray(np.linalg.solve(centred.T @ centred + ridge * np.eye(centred.shape[1]), centred.T @ values))


def _resolution(num_domains: int) -> int:
    """Return how many steps an edge of the grid has: at most 20, and so few that the grid stays small."""
    fits = (n for n in range(20, 1, -1) if math.comb(n + num_domains - 1, num_domains - 1) <= MAX_POINTS)
    return next(fits, 2)


def _grid(num_domains: int) -> Iterator[Floats]:
    """Yield all weights that are multiples of one step and sum to 1."""
    steps = _resolution(num_domains)
    for bars in itertools.combinations(range(steps + num_domains - 1), num_domains - 1):
        ends = (-1, *bars, steps + num_domains - 1)
        yield np.diff(ends) / steps - 1 / steps


def _exchanges(point: Floats, step: float) -> Iterator[Floats]:
    for taken, given in itertools.permutations(range(len(point)), 2):
        if point[taken] > 0:
            moved = point.copy()
            amount = min(step, point[taken])
            moved[taken] -= amount
            moved[given] += amount
            yield moved
