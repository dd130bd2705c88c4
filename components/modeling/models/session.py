"""Session: the state of a generation in progress, as a policy's backend runs it.

Shapes: R rows still running, V vocabulary.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor


class Session(ABC):
    """Rows of a generation in progress, with the backend's caches."""

    @abstractmethod
    def start(self) -> Tensor:
        """Encode the prompts; return logits [R, V] of every row's first response token."""

    @abstractmethod
    def step(self, tokens: Tensor) -> Tensor:
        """Append tokens [R]; return logits [R, V] of the next ones."""

    @abstractmethod
    def keep(self, rows: Tensor) -> None:
        """Keep only the given rows, indices [R'] in rising order."""
