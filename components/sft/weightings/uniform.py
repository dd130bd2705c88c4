"""Equal weights: what a learned weighting is compared with."""

from __future__ import annotations

from collections.abc import Sequence

from components.contract.params import Params
from components.sft.weighting import Weighting


class UniformConfig(Params):
    """Nothing to set."""


class Uniform(Weighting):
    """The same weight for each task, always."""

    def __init__(self, count: int) -> None:
        self._count = count

    def weights(self) -> list[float]:
        """Return 1 / K for each task."""
        return [1.0 / self._count] * self._count


def uniform(tasks: Sequence[str], seed: int, *, config: UniformConfig) -> Weighting:
    """Return the weighting that learns nothing."""
    return Uniform(len(tasks))
