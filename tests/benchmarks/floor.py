"""The least time that matrix products can take on this machine, from rates that none of our products has a part in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from components.modeling.models.policy import Policy
from tests.benchmarks.script import best_of

SIDE = 1024
"""Of the square matrices whose product gives the rate: large enough for a BLAS to be at its best."""
BANDWIDTH_BYTES = 256 << 20
"""Beyond any cache."""
FORWARD, TRAINED = 1, 3
"""Products with a weight in a forward pass, and with its backward pass."""


@dataclass(frozen=True)
class Floor:
    """This machine's best rates on one thread: a product takes its arithmetic, or the time to read its weight."""

    flops: float
    """Floating-point operations in a second: the faster of torch.mm and numpy's matmul on large squares."""
    bandwidth: float
    """Bytes in a second that a sum reads."""

    @classmethod
    def measure(cls) -> Floor:
        """Measure both, by the CPU time of the fastest of ten tries."""
        a, b = torch.randn(SIDE, SIDE), torch.randn(SIDE, SIDE)
        seconds = min(best_of(partial(torch.mm, a, b)), best_of(partial(np.matmul, a.numpy(), b.numpy())))
        read = torch.ones(BANDWIDTH_BYTES // 4)
        return cls(2 * SIDE**3 / seconds, BANDWIDTH_BYTES / best_of(read.sum))

    def product(self, rows: float, weight: torch.Size) -> float:
        """Return the seconds of rows [N, K] times a weight [O, K]."""
        return max(2 * rows * weight.numel() / self.flops, 4 * weight.numel() / self.bandwidth if rows else 0.0)

    def pass_of(self, policy: Policy, rows: float, head_rows: float, products: int = FORWARD) -> float:
        """Return the seconds of `rows` through all matrices of a policy, `head_rows` through the output matrix."""
        return products * sum(self.product(head_rows if head else rows, shape) for head, shape in _matrices(policy))

    def figures(self) -> dict[str, float]:
        """Return the rates for a result."""
        return {"floor_gflops": round(self.flops / 1e9, 1), "floor_gb_per_second": round(self.bandwidth / 1e9, 1)}


def _matrices(policy: Policy) -> Iterable[tuple[bool, torch.Size]]:
    """Yield whether a matrix maps to the vocabulary, and its shape."""
    for name, weight in policy.trainable():
        if weight.ndim == 2:
            yield name in ("embedding", "head"), weight.shape
