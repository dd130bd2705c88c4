"""Two models on the great circle between them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from components.merge.config import MergerConfig, first_fit

if TYPE_CHECKING:
    from torch import Tensor

    from components.merge.stack import Block, Stack


class SlerpConfig(MergerConfig):
    """Where between the two models."""

    least_models: ClassVar[int] = 2
    most_models: ClassVar[int | None] = 2
    t: float = Field(default=0.5, ge=0, le=1)
    """0: the first model; 1: the second."""
    by_tensor: dict[str, float] = Field(default_factory=dict)
    """Pattern of tensor names -> t there; the first that fits counts."""
    parallel: float = Field(default=0.9995, gt=0, lt=1)
    """Cosine, either sign, above which the straight line is taken: the arc is not defined there."""


def slerp(stack: Stack, *, config: SlerpConfig) -> Callable[[Block], Tensor]:
    """Return (sin((1-t) a) W_0 + sin(t a) W_1) / sin a, where a is the angle between the tensors as flat vectors.

    Source: Shoemake 1985, Animating rotation with quaternion curves, section 3.3; that norms are left as they are, and
    the straight line near parallel, are mergekit's (Goddard et al. 2024, arXiv:2403.13257).
    """
    t = first_fit(config.by_tensor, stack.name, config.t)
    product, norms = stack.dot(0, 1), math.sqrt(stack.dot(0, 0) * stack.dot(1, 1))
    cosine = product / norms if norms else 1.0
    first, second = 1.0 - t, t
    if abs(cosine) <= config.parallel:
        angle = math.acos(cosine)
        first, second = math.sin((1 - t) * angle) / math.sin(angle), math.sin(t * angle) / math.sin(angle)

    def merge(block: Block) -> Tensor:
        return (block.models[0] * first).add_(block.models[1], alpha=second)

    return merge
