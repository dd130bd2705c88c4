"""No reference policy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from components.rl.configs import NoConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from components.rl.step.policies import Policies


def none(policies: Policies, context: SlotContext, *, config: NoConfig) -> None:
    """Return None."""
    return
