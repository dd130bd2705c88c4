"""Forward correction of a reward that errs: each response has the weight that makes errors cancel in expectation."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from components.rl.configs import AdvantageConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class ForwardCorrectionConfig(AdvantageConfig):
    """Which rewards are taken for right."""

    reads: ClassVar[frozenset[str]] = frozenset({"false_negative_rate_s"})
    right_from: float = 0.5
    """Lowest reward of a response that is taken for right."""


def forward_correction(batch: Batch, context: SlotContext, *, config: ForwardCorrectionConfig) -> Tensor:
    """Return [S]: rho_1 where the reward takes the response for right, rho_1 - 1 where it does not.

    The mean over errors is 0 for a right response and -(1 - rho_0 - rho_1) for a wrong one, so that the expected update
    is the clean one times 1 - rho_0 - rho_1; only the rate of false negatives (mark `false_negative_rate_s`) is needed.
    It is the reward less the constant 1 - rho_1: a baseline of the group behind it would undo it.

    Source: Cai et al. 2025, Reinforcement Learning with Verifiable yet Noisy Rewards under Imperfect Verifiers
    (arXiv:2510.00915), forward correction.
    """
    taken_s = (batch.rewards >= config.right_from).to(batch.rewards.dtype)
    return taken_s - 1 + batch.extras["false_negative_rate_s"]
