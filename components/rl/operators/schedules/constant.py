"""The stage's settings at every step."""

from __future__ import annotations

from components.rl.configs import NoConfig
from components.rl.step.context import SlotContext
from components.rl.step.settings import StepSettings


def constant(settings: StepSettings, context: SlotContext, *, config: NoConfig) -> StepSettings:
    """Return the stage's settings unchanged."""
    return settings
