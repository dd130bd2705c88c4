"""Base config of the operators that combine the parts of a reward. Does not import torch: planning imports it."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

from components.rl.configs import SlotConfig


class CombineConfig(SlotConfig):
    """Base of combine configs."""

    reads_nan: ClassVar[bool] = False
    """Whether it is given responses with a part of NaN, too, and may say what they get; else they have no reward."""

    def named(self) -> Collection[str]:
        """Return the parts that it names; each must be there."""
        return ()

    def check(self, parts: Collection[str]) -> str | None:
        """Return why it cannot combine these parts; None if it can."""
        return None
