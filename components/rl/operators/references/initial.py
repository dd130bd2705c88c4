"""The frozen starting policy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from components.rl.configs import NoConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from components.modeling.models.policy import Policy
    from components.rl.step.policies import Policies


def initial(policies: Policies, context: SlotContext, *, config: NoConfig) -> Policy:
    """Return the model of input `reference`, or the stage's input model if that is not connected.

    A phase that resets the reference replaces it with the policy at the start of the phase.
    """
    return policies.anchor
