"""The weighted mean of models: a soup."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pydantic import model_validator

from components.merge.config import WeightedConfig

if TYPE_CHECKING:
    from torch import Tensor

    from components.merge.stack import Block, Stack


ZERO = 1e-9
"""Weights whose sum is a smaller share of their magnitudes sum to 0, but for rounding."""


class LinearConfig(WeightedConfig):
    """How much each model counts."""

    normalise: bool = True
    """Whether weights are divided by their sum."""

    @model_validator(mode="after")
    def _sums(self) -> LinearConfig:
        for given in (self.weights, *self.by_tensor.values()):
            if self.normalise and abs(sum(given)) <= ZERO * sum(map(abs, given)) and given:
                raise ValueError("weights sum to 0, and cannot be divided by that; set normalise: false")
        return self


def linear(stack: Stack, *, config: LinearConfig) -> Callable[[Block], Tensor]:
    """Return sum_m w_m W_m, with w divided by its sum.

    Source: Wortsman et al. 2022, Model soups (arXiv:2203.05482), section 2.
    """
    weights = config.weights_at(stack.name, stack.count)
    total = sum(weights) if config.normalise else 1.0

    def merge(block: Block) -> Tensor:
        merged = block.models[0] * (weights[0] / total)
        for weight, model in zip(weights[1:], block.models[1:], strict=True):
            merged.add_(model, alpha=weight / total)
        return merged

    return merge
