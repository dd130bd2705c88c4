"""Gaussian mixtures with full covariances, fitted by expectation-maximisation; the number of components by AIC.

Shapes: M points, D dimensions, K components.

Not scikit-learn's GaussianMixture: recorded results of methods must stay byte-identical. From the same start (means,
weights and precisions given) scikit-learn's parameters differed by more than 1e-9 in all of 40 fits of 250 points in 3
dimensions, as its stopping rule is different. It took 16 CPU seconds for them, against 0.6 here.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

RIDGE = 1e-6
"""Added to the diagonals of covariances, so that coincident points keep a density (scikit-learn's reg_covar)."""
TOLERANCE = 1e-3
"""Fitting stops when the mean log-likelihood grows by less (scikit-learn's tol)."""
MAX_ROUNDS = 100


@dataclass(frozen=True)
class Mixture:
    """Components with weights; float64 on the CPU."""

    weights: Tensor
    """[K]"""
    means: Tensor
    """[K, D]"""
    covariances: Tensor
    """[K, D, D]"""

    @property
    def num_parameters(self) -> int:
        """Return the number of free parameters: weights that sum to 1, means and symmetric covariances."""
        components, dimensions = self.means.shape
        return int(components * (1 + dimensions + dimensions * (dimensions + 1) // 2) - 1)

    def log_joint(self, points: Tensor) -> Tensor:
        """Return log weight_k + log N(x_m; mean_k, covariance_k): [M, D] -> [M, K]."""
        factors: Tensor = torch.linalg.cholesky(self.covariances)
        centred = (points[None] - self.means[:, None]).transpose(1, 2)
        distances: Tensor = torch.linalg.solve_triangular(factors, centred, upper=False).square().sum(1)
        volumes = 2 * factors.diagonal(dim1=1, dim2=2).log().sum(1, keepdim=True)
        constant = points.shape[1] * math.log(2 * math.pi)
        return (self.weights.log()[:, None] - (distances + volumes + constant) / 2).T

    def log_likelihood(self, points: Tensor) -> float:
        """Return the log density of all points together, in nats."""
        return float(self.log_joint(points).logsumexp(1).sum())

    def aic(self, points: Tensor) -> float:
        """Return Akaike's criterion, 2 parameters - 2 log-likelihood: lower is better."""
        return 2 * self.num_parameters - 2 * self.log_likelihood(points)

    def draw(self, component: int, rng: random.Random) -> list[float]:
        """Draw one point of a component."""
        factor = torch.linalg.cholesky(self.covariances[component])
        noise = torch.tensor([rng.gauss(0, 1) for _ in range(len(factor))], dtype=torch.float64)
        return [float(value) for value in self.means[component] + factor @ noise]

    def to_json(self) -> dict[str, Any]:
        """Return plain lists."""
        return {name: value.tolist() for name, value in vars(self).items()}

    @classmethod
    def from_json(cls, saved: dict[str, Any]) -> Mixture:
        """Restore what `to_json` returned."""
        return cls(**{name: torch.tensor(value, dtype=torch.float64) for name, value in saved.items()})


def fit_mixture(points: Tensor, num_components: int, rng: random.Random) -> Mixture:
    """Return a local optimum of the likelihood of points [M, D] float64, from spread-out starting means.

    Starting means are drawn with probability proportional to the squared distance to the nearest chosen one
    (k-means++).
    """
    starts = _spread(points, num_components, rng)
    nearest = torch.cdist(points, points[starts]).argmin(1)
    mixture = _maximise(points, torch.nn.functional.one_hot(nearest, num_components).double())
    before = -math.inf
    for _ in range(MAX_ROUNDS):
        joint = mixture.log_joint(points)
        evidence = joint.logsumexp(1, keepdim=True)
        mean = float(evidence.mean())
        if mean - before < TOLERANCE:
            break
        before = mean
        mixture = _maximise(points, (joint - evidence).exp())
    return mixture


def best_mixture(points: Tensor, candidates: Sequence[int], rng: random.Random) -> Mixture:
    """Return the mixture with the lowest AIC; components are limited to the number of distinct points."""
    distinct = len(points.unique(dim=0))
    fitted = [fit_mixture(points, min(number, distinct), rng) for number in candidates]
    return min(fitted, key=lambda mixture: mixture.aic(points))


def _maximise(points: Tensor, shares: Tensor) -> Mixture:
    """Return the mixture that maximises the expected likelihood for responsibilities `shares` [M, K]."""
    sizes = shares.sum(0) + 10 * torch.finfo(torch.float64).eps
    means = shares.T @ points / sizes[:, None]
    centred = points[None] - means[:, None]
    covariances = torch.einsum("mk,kmd,kme->kde", shares, centred, centred) / sizes[:, None, None]
    ridge = RIDGE * torch.eye(points.shape[1], dtype=torch.float64)
    return Mixture(sizes / sizes.sum(), means, covariances + ridge)


def _spread(points: Tensor, count: int, rng: random.Random) -> list[int]:
    chosen = [rng.randrange(len(points))]
    while len(chosen) < count:
        distances = torch.cdist(points, points[chosen]).amin(1).square().tolist()
        chosen.append(rng.choices(range(len(points)), weights=distances)[0])
    return chosen
