"""Constraints that keep an order: what violates one lies below all that satisfies them, by its reward."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from components.rl.combine_config import CombineConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch
    from components.rl.batch.reward_part import RewardPart


class ConstrainedRankConfig(CombineConfig):
    """Which parts constrain."""

    reads_nan: ClassVar[bool] = True
    by: dict[str, float] = Field(min_length=1)
    """Part -> its lowest value, before its weight, at which the constraint holds; they add nothing to the reward."""

    def named(self) -> Collection[str]:
        """Return the constraints."""
        return tuple(self.by)

    def check(self, parts: Collection[str]) -> str | None:
        """Refuse constraints without a reward."""
        return None if set(parts) - set(self.by) else "constrains every part, so that nothing is left to reward"


def constrained_rank(
    parts: Sequence[RewardPart], batch: Batch, context: SlotContext, *, config: ConstrainedRankConfig
) -> Tensor:
    """Return [S]: R, the weighted sum of the other parts, where all constraints hold, and R - 1 where one does not.

    R lies in [0, 1], such as that of `calibrated_scorer`, so what satisfies has a reward of at least 0 and what
    violates one of at most 0. Advantages `crpg` and `crraft` take what is below 0 for 0, as under combine
    `constrained`; objective `codpo` rejects the lowest. NaN where R is, or where a constraint is unknown and no other
    is violated. Metric: `satisfied`, the share of judged responses that satisfy all, of the latest batch of the step.

    Source: Xu et al. 2024, The Perfect Blend (CGPO, arXiv:2409.20370): CODPO rejects the violating response with the
    lowest reward, so a violation must not hide it. One number for both is ours.
    """
    import torch

    from components.contract.errors import InputError
    from components.rl.batch.reward_part import weighted_sum

    held = torch.stack([part.value >= config.by[part.name] for part in parts if part.name in config.by])
    unknown = torch.stack([part.value.isnan() for part in parts if part.name in config.by])
    violated, unsure = (~held & ~unknown).any(0), unknown.any(0)
    others = [part for part in parts if part.name not in config.by]
    if any(part.tokens is not None for part in others):
        raise InputError("combine constrained_rank orders whole responses, and a reward is received at tokens")
    reward = weighted_sum(others, batch)
    if bool(((reward < 0) | (reward > 1)).any()):
        low, high = float(reward[~reward.isnan()].min()), float(reward[~reward.isnan()].max())
        raise InputError(
            f"combine constrained_rank: rewards lie between {low:.3g} and {high:.3g}, and must lie between 0 and 1; "
            "use calibrated_scorer, or weights of 0 for parts that are only watched"
        )
    if bool((~unsure).any()):
        context.metrics["satisfied"] = float(held.all(0)[~unsure].float().mean())
    return torch.where(violated, reward - 1, reward).masked_fill(unsure & ~violated, torch.nan)
