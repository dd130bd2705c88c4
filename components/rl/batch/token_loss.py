"""The return type of objectives and regularizers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class TokenLoss:
    """A loss per token, before the denominator, with metrics to log."""

    loss: Tensor
    """[N], differentiable."""
    metrics: Mapping[str, Tensor] = field(default_factory=dict)
    """Name -> [N] detached; logged as means over tokens."""
