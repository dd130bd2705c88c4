"""What a weighting of source tasks does, step after step of a meta-transfer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


class Weighting(ABC):
    """Gives the weights of the tasks, and learns from what each of them gained; K tasks in a fixed order."""

    @abstractmethod
    def weights(self) -> list[float]:
        """Return K weights from 0 that sum to 1, for the step that begins; called once in a step."""

    def learn(self, gains: Sequence[float]) -> None:
        """Hear by how much each task's step lowered the loss of the target, in nats a target token."""
        return

    def state(self) -> dict[str, Tensor]:
        """Return copies of all that it remembers between steps, for a checkpoint."""
        return {}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state` returned."""
        return
