"""The verifier's score as a reward: partial credit where the verifier gives it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from components.rl.configs import RewardConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class ScoreConfig(RewardConfig):
    """No settings of its own."""


def score(batch: Batch, context: SlotContext, *, config: ScoreConfig) -> Tensor:
    """Return [S]: the verdict's score in [0, 1], such as the share of tests that a program passes.

    A verifier without partial credit gives 1 for right and 0 for wrong, as reward `verifier` does. Failed verifications
    are removed before any reward is computed.
    """
    return context.collector.scores(batch)
