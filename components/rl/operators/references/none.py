"""No reference policy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from components.rl.step.slots import NoConfig, SlotContext

if TYPE_CHECKING:
    from components.rl.step.policies import Policies


def none(policies: Policies, context: SlotContext, *, config: NoConfig) -> None:
    """Return None."""
    return
