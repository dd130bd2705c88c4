"""Estimates of a divergence from samples of one side."""

from __future__ import annotations

import torch
from torch import Tensor


def kl_estimates(logprobs: Tensor, other: Tensor) -> dict[str, Tensor]:
    """Return the estimators k1, k2 and k3 of Schulman 2020, each [N] in float64, of KL(policy || other).

    Shapes: both [N], log-probabilities of tokens that the first policy drew.
    """
    difference = logprobs.double() - other.double()
    return {"k1": difference, "k2": difference.square() / 2, "k3": torch.expm1(-difference) + difference}
