"""Separate weights for right and wrong responses: PSR, NSR and W-REINFORCE."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from components.rl.configs import AdvantageConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class SignedOutcomeConfig(AdvantageConfig):
    """The weight of each outcome."""

    positive: float = Field(default=0.1, ge=0)
    """Advantage of a right response. W-REINFORCE 0.1, PSR 1, NSR 0."""
    negative: float = Field(default=1.0, ge=0)
    """A wrong response has minus this advantage. W-REINFORCE and NSR 1, PSR 0."""


def signed_outcome(batch: Batch, context: SlotContext, *, config: SignedOutcomeConfig) -> Tensor:
    """Return [S]: `positive` where the response is right, -`negative` where it is wrong; no baseline, no spread.

    Source: Zhu et al. 2025, The Surprising Effectiveness of Negative Reinforcement (arXiv:2506.01347), and its
    released code.
    """
    import torch

    from components.rl.batch.batch import RIGHT

    positive, negative = (batch.rewards.new_tensor(value) for value in (config.positive, -config.negative))
    return torch.where(batch.outcomes == RIGHT, positive, negative)
