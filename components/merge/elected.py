"""Task vectors where signs conflict: one sign for each weight, and the mean of those that have it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def add_elected(base: Tensor, deltas: Sequence[Tensor], weights: Sequence[float], scale: float) -> Tensor:
    """Return base + scale * mean of the weighted deltas whose sign is that of their sum; zeros do not vote.

    The mean is over the magnitudes of the weights of those that agree. Shapes: all alike.
    Source: TIES-Merging (arXiv:2306.01708), algorithm 1, lines 8 to 16.
    """
    total = sum((weight * delta for weight, delta in zip(weights, deltas, strict=True)), torch.zeros_like(base))
    elected = total.sign()
    merged, voters = torch.zeros_like(base), torch.zeros_like(base)
    for weight, delta in zip(weights, deltas, strict=True):
        part = weight * delta
        agrees = (part.sign() == elected) & (part != 0)
        merged += torch.where(agrees, part, 0.0)
        voters += abs(weight) * agrees
    merged = torch.where(voters > 0, merged / voters.clamp_min(torch.finfo(torch.float32).tiny), 0.0)
    return base + scale * merged
