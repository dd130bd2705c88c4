"""The stage's settings at every step."""

from __future__ import annotations

from components.rl.step.slots import NoConfig, SlotContext, StepSettings


def constant(settings: StepSettings, context: SlotContext, *, config: NoConfig) -> StepSettings:
    """Return the settings as the stage has them."""
    return settings
