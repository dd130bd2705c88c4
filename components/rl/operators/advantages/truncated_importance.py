"""A correction for tokens drawn from a distribution other than the policy's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from components.rl.configs import AdvantageConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class TruncatedImportanceConfig(AdvantageConfig):
    """The bound of the weight."""

    cap: float = Field(default=2.0, gt=0)
    """Largest importance weight of a token."""


def truncated_importance(batch: Batch, context: SlotContext, *, config: TruncatedImportanceConfig) -> Tensor:
    """Return [N]: A min(pi_old / pi_behaviour, cap), token by token; A itself where the policy drew the tokens.

    Source: Yao et al. 2025, Your Efficient RL Framework Secretly Brings You Off-Policy RL Training (truncated
    importance sampling); used by Yang et al. 2025, Let it Calm (arXiv:2510.05251).
    """
    from components.rl.batch.surrogate import truncated_weights

    return batch.advantages * truncated_weights(batch, config.cap)
