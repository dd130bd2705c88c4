"""The outcome of verification as a reward."""

from __future__ import annotations

from typing import TYPE_CHECKING

from components.rl.configs import RewardConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class VerifierConfig(RewardConfig):
    """Values of the two outcomes."""

    right: float = 1.0
    """Reward of a right response."""
    wrong: float = 0.0
    """Reward of a wrong response."""


def verifier(batch: Batch, context: SlotContext, *, config: VerifierConfig) -> Tensor:
    """Return [S]: `right` or `wrong`. Failed verifications are removed before any reward is computed."""
    from components.rl.batch.batch import RIGHT

    right = batch.outcomes == RIGHT
    return config.wrong + (config.right - config.wrong) * right.float()
