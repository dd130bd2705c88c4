"""DUMP's sampler: upper confidence bounds on the learnability of each distribution of prompts."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pydantic import Field

from components.rl.curricula.categories import CategoryConfig, draw, members, softmax
from components.rl.curricula.gains import new_gains
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from components.rl.batch.batch import Prompt

Window = list[tuple[int, float]]
"""Newest last: responses, and their mean |advantage|."""


class UCBBanditConfig(CategoryConfig):
    """The bandit's constants."""

    window: int = Field(default=300, ge=1)
    """Latest responses of a category over which |advantage| is averaged."""
    exploration: float = Field(default=1.0, ge=0)
    """c: weight of the bonus for categories seen less often."""
    temperature: float = Field(default=0.1, gt=0)
    """tau of the softmax over the bounds."""


def ucb_bandit(pool: Sequence[Prompt], count: int, context: SlotContext, *, config: UCBBanditConfig) -> list[int]:
    """Return `count` indices: each prompt's category is drawn from softmax(UCB / tau), the prompt uniformly within it.

    Groups whose rewards are all equal have advantage 0, so solved and hopeless categories lose weight by themselves.
    Source: Wang et al. 2025, DUMP (arXiv:2504.09710), algorithm 1, and its released code.
    """
    categories = members(pool, config.by)
    windows = context.memory.setdefault("windows", {name: [] for name in categories})
    seen = context.memory.setdefault("num_responses", dict.fromkeys(categories, 0))
    for gains in new_gains(categories, pool, context):
        for gain in gains:
            windows[gain.category].append([gain.num_responses, gain.mean_abs_advantage])
            seen[gain.category] += gain.num_responses
    for name, window in windows.items():
        windows[name] = _latest(window, config.window)
    learnability = {name: _mean(window) for name, window in windows.items()}
    weights = softmax(upper_bounds(learnability, seen, config.exploration), config.temperature)
    context.metrics.update({f"weight_{name}": weight for name, weight in weights.items()})
    draws = context.memory["draws"] = context.memory.get("draws", -1) + 1
    return draw(categories, weights, count, random.Random(f"{context.seed}/ucb_bandit/{draws}"))


def upper_bounds(
    learnability: Mapping[str, float], num_responses: Mapping[str, int], exploration: float
) -> dict[str, float]:
    """Return L_j + c sqrt(2 ln(N + 1) / (n_j + 1)), n_j the responses of category j so far, N their sum."""
    total = sum(num_responses.values())
    return {
        name: value + exploration * math.sqrt(2 * math.log(total + 1) / (num_responses[name] + 1))
        for name, value in learnability.items()
    }


def _latest(window: Window, size: int) -> Window:
    """Keep the newest `size` responses; the oldest group kept is cut to fit."""
    kept: Window = []
    room = size
    for number, mean in reversed(window):
        if room == 0:
            break
        kept.append((min(number, room), mean))
        room -= kept[-1][0]
    return kept[::-1]


def _mean(window: Window) -> float:
    number = sum(count for count, _ in window)
    return sum(count * mean for count, mean in window) / number if number else 0.0
