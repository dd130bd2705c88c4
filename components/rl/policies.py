"""The policies that a step may compare: the one that is trained, and the one that it started from."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from components.modeling.policy import Policy, load_policy


class Policies:
    """The trained policy, and frozen ones that are loaded when an operator first asks for them."""

    def __init__(self, trained: Policy, start: Path, *, dtype: str) -> None:
        """`start` is the model folder of the frozen starting policy."""
        self.trained = trained
        self._start, self._dtype = start, dtype

    @cached_property
    def start(self) -> Policy:
        """Return the frozen starting policy. It comes from an input, so a resumed run has the same."""
        policy = load_policy(self._start, device=str(self.trained.device), dtype=self._dtype)
        policy.module.requires_grad_(False)
        return policy
