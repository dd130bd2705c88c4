"""A reference that is reset to the trained policy periodically."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from components.rl.configs import SlotConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from components.modeling.models.policy import Policy
    from components.rl.step.policies import Policies


class ResetConfig(SlotConfig):
    """How often the reference is reset."""

    keeps_copy: ClassVar[bool] = True
    every: int = Field(default=100, ge=1)
    """Steps between two resets."""


def reset(policies: Policies, context: SlotContext, *, config: ResetConfig) -> Policy:
    """Return the trained policy as of the last step that is a multiple of `every`, or before it the starting policy.

    Source: Liu et al. 2025, ProRL (arXiv:2505.24864), section 3.2: a hard reset of the reference policy keeps the KL
    term from dominating the loss.
    """
    return policies.snapshot(config.every)
