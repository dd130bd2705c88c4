"""A veto: a part that fails replaces the whole reward."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from pydantic import Field

from components.rl.combine_config import CombineConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch
    from components.rl.batch.reward_part import RewardPart


class VetoConfig(CombineConfig):
    """Which parts may veto, when they do, and what is left then."""

    by: tuple[str, ...] = Field(min_length=1)
    """Parts that may veto; unlike those of a gate, they also count in the sum."""
    at_least: float = 1.0
    """Lowest value of each of them, before its weight, without a veto."""
    value: float = 0.0
    """Reward of a vetoed response."""

    def named(self) -> Collection[str]:
        """Return the parts that may veto."""
        return self.by


def veto(parts: Sequence[RewardPart], batch: Batch, context: SlotContext, *, config: VetoConfig) -> Tensor:
    """Return [S] or [N]: the weighted sum of all parts; `value` where one of `by` is below `at_least`.

    Source: Huang et al. 2025, Reinforcement Learning with Rubric Anchors (Rubicon, arXiv:2508.12790): failing a
    critical criterion voids the others.
    """
    from components.rl.batch.reward_part import all_reach, kept_where, weighted_sum

    passed = all_reach(parts, config.by, config.at_least)
    return kept_where(passed, weighted_sum(parts, batch), batch, otherwise=config.value)
