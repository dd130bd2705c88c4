"""A gate: the reward counts only where the gating parts pass, such as format before correctness."""

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


class GateConfig(CombineConfig):
    """Which parts gate, when they pass, and what a response gets that does not."""

    by: tuple[str, ...] = Field(min_length=1)
    """Parts that gate; they add nothing to the reward."""
    at_least: float = 1.0
    """Lowest value of each of them, before its weight, at which a response passes."""
    otherwise: float = 0.0
    """Reward of a response that does not pass."""

    def named(self) -> Collection[str]:
        """Return the gating parts."""
        return self.by

    def check(self, parts: Collection[str]) -> str | None:
        """Refuse a gate before nothing."""
        return None if set(parts) - set(self.by) else "gates every part, so that nothing is left to reward"


def gate(parts: Sequence[RewardPart], batch: Batch, context: SlotContext, *, config: GateConfig) -> Tensor:
    """Return [S] or [N]: the weighted sum of the other parts where all gating parts pass, else `otherwise`."""
    from components.rl.batch.reward_part import all_reach, kept_where, weighted_sum

    others = weighted_sum([part for part in parts if part.name not in config.by], batch)
    return kept_where(all_reach(parts, config.by, config.at_least), others, batch, otherwise=config.otherwise)
