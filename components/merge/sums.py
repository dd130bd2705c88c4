"""Sums over the entries of a block: float32 within a run of entries, float64 over the runs."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

RUN = 4096
"""Entries of a run."""


def dot(first: Tensor, second: Tensor) -> float:
    """Return the inner product of two blocks as flat vectors."""
    if first is second:  # norms store no products: a third of the time
        return sum(float(torch.linalg.vector_norm(runs, dim=-1).double().square().sum()) for runs in _runs(first))
    pairs = zip(_runs(first), _runs(second), strict=True)
    return sum(float((one * other).sum(-1).double().sum()) for one, other in pairs)


def _runs(values: Tensor) -> Iterator[Tensor]:
    """Yield whole runs [R, RUN], and the rest."""
    flat = values.flatten()
    whole = len(flat) // RUN * RUN
    yield flat[:whole].view(-1, RUN)
    yield flat[whole:]
