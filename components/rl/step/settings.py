"""How one step samples and learns."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class StepSettings:
    """How one step samples and learns; a schedule may change it from step to step."""

    prompts_per_step: int
    group_size: int
    max_new_tokens: int
    temperature: float
    learning_rate_scale: float = 1.0
    """Factor of the optimiser's scheduled learning rate."""
