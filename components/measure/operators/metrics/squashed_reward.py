"""What a reward model says, between 0 and 1, so that it can stand beside other metrics."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from components.contract.further import SCORERS
from components.contract.heads import SCORES, Head
from components.measure.harness.configs import MetricConfig

if TYPE_CHECKING:
    from components.measure.harness.context import MeasureContext
    from components.measure.outcomes import ItemOutcomes


class SquashedRewardConfig(MetricConfig):
    """The scorer is the first model at input `scorers`."""

    asks: ClassVar[tuple[str, ...]] = (SCORERS,)
    asks_heads: ClassVar[frozenset[Head]] = SCORES
    gives: ClassVar[Mapping[str, str]] = {
        "squashed_reward": "Mean sigmoid of the reward model's scores of a prompt's responses",
    }
    shift: float = 0.0
    """Added to a score before the sigmoid, as in reward `scorer`: pairs give no zero."""


def squashed_reward(
    outcomes: Sequence[ItemOutcomes], context: MeasureContext, *, config: SquashedRewardConfig
) -> Mapping[str, Sequence[float | None]]:
    """Return the mean over each prompt's responses; those that cannot be scored do not count.

    As reward `scorer` with `squash: sigmoid`: what RL was given, measured on held-out prompts.
    """
    from components.measure.rating import rewards_of

    found = []
    for rewards in rewards_of(context.further[SCORERS][0], outcomes):
        known = [_sigmoid(value + config.shift) for value in rewards if value is not None]
        found.append(sum(known) / len(known) if known else None)
    return {"squashed_reward": found}


def _sigmoid(value: float) -> float:
    """Return the sigmoid of any finite number, without an overflow."""
    small = math.exp(-abs(value))
    return (1.0 if value >= 0 else small) / (1 + small)
