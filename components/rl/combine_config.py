"""Base config of the operators that combine the parts of a reward. Does not import torch: planning imports it."""

from __future__ import annotations

from collections.abc import Collection

from components.rl.configs import SlotConfig


class CombineConfig(SlotConfig):
    """Base of combine configs."""

    def named(self) -> Collection[str]:
        """Return the parts that it names; each must be there."""
        return ()

    def check(self, parts: Collection[str]) -> str | None:
        """Return why it cannot combine these parts; None if it can."""
        return None
