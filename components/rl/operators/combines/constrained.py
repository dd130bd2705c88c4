"""Constraints: the reward counts only where judges or rules hold; what could not be judged is no violation."""

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


class ConstrainedConfig(CombineConfig):
    """Which parts constrain, and what a response gets that violates one."""

    reads_nan: ClassVar[bool] = True
    by: dict[str, float] = Field(min_length=1)
    """Part -> its lowest value, before its weight, at which the constraint holds; they add nothing to the reward."""
    otherwise: float = 0.0
    """Reward of a response that violates a constraint."""

    def named(self) -> Collection[str]:
        """Return the constraints."""
        return tuple(self.by)

    def check(self, parts: Collection[str]) -> str | None:
        """Refuse constraints without a reward."""
        return None if set(parts) - set(self.by) else "constrains every part, so that nothing is left to reward"


def constrained(
    parts: Sequence[RewardPart], batch: Batch, context: SlotContext, *, config: ConstrainedConfig
) -> Tensor:
    """Return [S] or [N]: the weighted sum of the other parts where all constraints hold, else `otherwise`.

    A part that is NaN, such as a judge that could not be read, is a violation nowhere: the reward is NaN, a failed
    verification, unless another constraint is violated. (Combine `gate` takes NaN for a part that does not pass.)
    Metrics: `satisfied`, the share of judged responses that satisfy all; `satisfied_<part>`, of each constraint.

    Source: Xu et al. 2024, The Perfect Blend (CGPO, arXiv:2409.20370): a response satisfies the constraints if and only
    if all judges of the mixture say so, and what violates one has no reward.
    """
    import torch

    from components.rl.batch.reward_part import kept_where, weighted_sum

    held = torch.stack([part.value >= config.by[part.name] for part in parts if part.name in config.by])
    unknown = torch.stack([part.value.isnan() for part in parts if part.name in config.by])
    violated, open_rows = (~held & ~unknown).any(0), unknown.any(0)
    _report(context, [part.name for part in parts if part.name in config.by], held, unknown)
    others = weighted_sum([part for part in parts if part.name not in config.by], batch)
    found = kept_where(~violated, others, batch, otherwise=config.otherwise)
    unsure = open_rows & ~violated
    return found.masked_fill(unsure if len(found) == batch.num_responses else batch.to_tokens(unsure), torch.nan)


def _report(context: SlotContext, names: Sequence[str], held: Tensor, unknown: Tensor) -> None:
    """Write the shares of satisfied constraints, of the latest batch of the step."""
    for name, holds, missing in zip(names, held, unknown, strict=True):
        if not bool(missing.all()):
            context.metrics[f"satisfied_{name.replace(' ', '_')}"] = float(holds[~missing].float().mean())
    judged = ~unknown.any(0)
    if bool(judged.any()):
        context.metrics["satisfied"] = float(held.all(0)[judged].float().mean())
