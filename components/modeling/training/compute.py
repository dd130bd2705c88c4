"""Compute: any function of a policy as one forward pass."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn


class Compute(nn.Module):
    """Runs any function of the policy as one forward pass, so that the hooks of whoever wraps it cover all of it."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.policy = module

    def forward(self, compute: Callable[[], Tensor]) -> Tensor:
        """Return what the function returns."""
        return compute()
