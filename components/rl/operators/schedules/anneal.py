"""A sampling temperature that changes over the run."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

from pydantic import Field

from components.contract.params import Params
from components.rl.step.context import SlotContext
from components.rl.step.settings import StepSettings


class AnnealConfig(Params):
    """The final temperature, and the curve to it."""

    final_temperature: float = Field(gt=0)
    """Temperature of the last step; the first step has the stage's `temperature`."""
    shape: Literal["linear", "cosine"] = "linear"
    """A line, or half a cosine that is flat at both ends."""


def anneal(settings: StepSettings, context: SlotContext, *, config: AnnealConfig) -> StepSettings:
    """Return the settings with the temperature of this step."""
    progress = context.step / max(1, context.num_steps - 1)
    if config.shape == "cosine":
        progress = (1 - math.cos(math.pi * progress)) / 2
    temperature = settings.temperature + (config.final_temperature - settings.temperature) * progress
    return replace(settings, temperature=temperature)
