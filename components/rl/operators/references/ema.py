"""A moving average of the trained policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from components.rl.configs import SlotConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from components.modeling.models.policy import Policy
    from components.rl.step.policies import Policies


class EmaConfig(SlotConfig):
    """How slowly the average follows."""

    keeps_copy: ClassVar[bool] = True
    decay: float = Field(default=0.99, ge=0, lt=1)
    """Share of the old average that a step keeps."""


def ema(policies: Policies, context: SlotContext, *, config: EmaConfig) -> Policy:
    """Return the exponential moving average of the weights, which begins as the policy of the first step.

    It is updated after every step: average <- decay * average + (1 - decay) * trained.
    """
    return policies.average(config.decay)
