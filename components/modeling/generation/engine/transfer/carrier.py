"""Carrier: one way by which buckets of weights reach an engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import ClassVar

from torch import Tensor

from components.modeling.generation.engine.engine_process import EngineProcess

DOING = "while it took over weights"


class Carrier(ABC):
    """Carries weights to one engine, between its calls `begin` and `end`."""

    way: ClassVar[str]
    """Its name in messages to the engine."""
    says: ClassVar[str]
    """Its name for people."""

    @abstractmethod
    def connect(self, engine: EngineProcess) -> None:
        """Set up what both sides need, once for each engine. Raises EngineFailed where this way does not work."""

    @abstractmethod
    def carry(self, engine: EngineProcess, weights: Iterable[tuple[str, Tensor]]) -> int:
        """Give the engine all weights, one bucket at a time; return their bytes."""

    def finish(self) -> None:
        """Give back what one transfer took; called when the engine has let go of it."""
        return

    def close(self) -> None:
        """Let go of what `connect` set up."""
        return
