"""How one step samples and learns."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class StepSettings:
    """How one step samples and learns; a schedule may change the values at each step."""

    prompts_per_step: int
    group_size: int
    max_new_tokens: int
    temperature: float
    learning_rate_scale: float = 1.0
    """Multiplies the optimiser's scheduled learning rate."""
