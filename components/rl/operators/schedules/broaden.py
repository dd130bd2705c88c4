"""BroRL: once the pass rate stops rising, many more responses to fewer prompts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from pydantic import Field

from components.rl.configs import SlotConfig
from components.rl.step.context import SlotContext
from components.rl.step.settings import StepSettings

if TYPE_CHECKING:
    from components.rl.step.ledger import Visit


class BroadenConfig(SlotConfig):
    """When a plateau is reached, and what changes then."""

    window: int = Field(default=20, ge=2)
    """Number of steps whose pass rates are fitted."""
    min_slope: float = 0.0005
    """A plateau: the pass rate rises by less than this per step over the window."""
    group_factor: int = Field(default=32, ge=2)
    """Factor of the responses per prompt: 16 to 512 in the paper."""
    prompt_factor: float = Field(default=0.25, gt=0, le=1)
    """Factor of the prompts per step, with at least one left."""


def broaden(settings: StepSettings, context: SlotContext, *, config: BroadenConfig) -> StepSettings:
    """Return the stage's settings before the plateau, the broad ones after it.

    The learning rate grows with the square root of the number of responses in a step.

    Source: Hu et al. 2025, BroRL (arXiv:2510.01180): N rollouts per prompt from 16 to 512 from a plateau on,
    square-root rule. Reconstructed: `prompt_factor`, and the trigger, a least-squares line through the pass rates of
    the ledger.
    """
    since = context.memory.get("broad_since")
    if since is None and context.step >= config.window:
        rates = step_rates(context.ledger.visits(since_step=context.step - config.window))
        if len(rates) >= 2 and slope(rates) < config.min_slope:
            since = context.memory["broad_since"] = context.step
    context.collector.metrics["broad"] = float(since is not None)
    if since is None:
        return settings
    prompts = max(1, round(settings.prompts_per_step * config.prompt_factor))
    growth = config.group_factor * prompts / settings.prompts_per_step
    return replace(
        settings,
        prompts_per_step=prompts,
        group_size=settings.group_size * config.group_factor,
        learning_rate_scale=settings.learning_rate_scale * math.sqrt(growth),
    )


def step_rates(visits: Iterable[Visit]) -> list[tuple[int, float]]:
    """Return (step, share of right ones among verified responses) for every step that has any, in order."""
    right, verified = Counter[int](), Counter[int]()
    for visit in visits:
        right[visit.step] += visit.num_right
        verified[visit.step] += visit.num_right + visit.num_wrong
    return [(step, right[step] / count) for step, count in sorted(verified.items()) if count]


def slope(points: list[tuple[int, float]]) -> float:
    """Return the slope of the least-squares line through (x, y) points with at least two different x."""
    centre_x = sum(x for x, _ in points) / len(points)
    centre_y = sum(y for _, y in points) / len(points)
    spread = sum((x - centre_x) ** 2 for x, _ in points)
    return sum((x - centre_x) * (y - centre_y) for x, y in points) / spread
