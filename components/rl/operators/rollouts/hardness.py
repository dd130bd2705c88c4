"""DARS' rollout: more responses to prompts that are rarely solved."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from components.rl.configs import SlotConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from components.rl.batch.batch import Batch, Prompt
    from components.rl.step.collector import Collector

ROUNDING = 1e-9
"""Keeps 2.9999999 from becoming 2 when a target is rounded to the nearest whole number."""


class HardnessConfig(SlotConfig):
    """The number of responses to a prompt, given the accuracy of its first `group_size` ones."""

    schedule: Literal["equal", "hardness"] = "equal"
    """equal (ET): the cumulative advantage of a prompt of accuracy 1/2. hardness (HW): more for harder prompts."""
    max_responses: int = Field(default=32, ge=1)
    """Responses to a prompt of accuracy 0, and the maximum for any prompt."""


def hardness(prompts: Sequence[Prompt], collector: Collector, context: SlotContext, *, config: HardnessConfig) -> Batch:
    """Draw `group_size` responses to each prompt, then more up to N(accuracy); all form one group.

    Source: Yang et al. 2025, Depth-Breadth Synergy in RLVR (arXiv:2508.13755), DARS, and its released trainer.
    """
    from components.rl.batch.batch import RIGHT, WRONG
    from components.rl.batch.joining import regroup

    first = context.settings.group_size
    drawn = collector.draw(prompts, first)
    outcomes = collector.outcomes(drawn)
    right, verified = [0] * len(prompts), [0] * len(prompts)
    for group, outcome in zip(drawn.group.tolist(), outcomes.tolist(), strict=True):
        right[group] += outcome == RIGHT
        verified[group] += outcome in (RIGHT, WRONG)
    missing: dict[int, list[Prompt]] = {}
    for prompt, num_right, num_verified in zip(prompts, right, verified, strict=True):
        if num_verified and (extra := target_responses(num_right / num_verified, first, config) - first) > 0:
            missing.setdefault(extra, []).append(prompt)
    return regroup([drawn, *(collector.draw(chosen, extra) for extra, chosen in sorted(missing.items()))])


def target_responses(accuracy: float, first: int, config: HardnessConfig) -> int:
    """Return N(u) for `first` responses drawn already, at least that many and at most `max_responses`.

    The cumulative advantage of N binary outcomes around their mean is 2 N u (1 - u). ET sets it to that of `first`
    responses at u = 1/2: N = first / (4 u (1 - u)). HW takes 3 first / (8 u) if that is more. Only u < 1/2 gets extra
    responses. With first = 8 these are the tables of the released trainer.
    """
    if accuracy >= 0.5:
        return first
    if accuracy <= 0:
        return max(first, config.max_responses)
    target = math.floor(first / (4 * accuracy * (1 - accuracy)) + 0.5 + ROUNDING)
    if config.schedule == "hardness":
        target = max(target, math.floor(3 * first / (8 * accuracy) + 0.5 + ROUNDING))
    return min(max(first, target), max(first, config.max_responses))
