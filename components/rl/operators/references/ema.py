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
    """The decay of the average."""

    keeps_copy: ClassVar[bool] = True
    decay: float = Field(default=0.99, ge=0, lt=1)
    """Share of the old average kept at each step."""


def ema(policies: Policies, context: SlotContext, *, config: EmaConfig) -> Policy:
    """Return the exponential moving average of the weights, which starts as the policy of the first step.

    It is updated after every step: average <- decay * average + (1 - decay) * trained.
    """
    return policies.average(config.decay)
