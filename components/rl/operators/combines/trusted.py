"""A judged part counts as far as it prefers right responses, and less from step to step."""

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


class TrustedConfig(CombineConfig):
    """Which part is trusted how far, what says which responses are right, and how fast trust fades."""

    part: str
    """The part in question, such as a judge's grade of the thought; its weight is the paper's alpha."""
    by: str = "verifier"
    """The part that says which responses are right."""
    right_from: float = 0.5
    """Lowest value of `by`, before its weight, of a right response."""
    horizon: float = Field(default=500.0, gt=0)
    """T: steps after which the part counts 1/e of what it did; the paper's runs are longer than 500 steps."""

    def named(self) -> Collection[str]:
        """Return both parts."""
        return self.part, self.by

    def check(self, parts: Collection[str]) -> str | None:
        """Refuse a part that is to be trusted by itself."""
        return f"trusts {self.part!r} by itself" if self.part == self.by else None


def trusted(parts: Sequence[RewardPart], batch: Batch, context: SlotContext, *, config: TrustedConfig) -> Tensor:
    """Return [S]: the other parts' weighted sum + weight * gamma * exp(-step / T) * value of the part.

    gamma = 1 where the part's mean over the group's right responses is not below that over the wrong ones, else exp of
    the (negative) difference. In a group of one outcome the part is left out. Metric: `trust`, the mean of gamma over
    groups of both outcomes.

    Source: Fan et al. 2025, SophiaVL-R1 (arXiv:2505.17018), Trust-GRPO; steps count from 0.
    """
    import math

    import torch

    value = {part.name: part.value for part in parts}
    judged = next(part for part in parts if part.name == config.part)
    right_s = (value[config.by] >= config.right_from).double()
    num_right_s, num_wrong_s = batch.group_sum(right_s), batch.group_sum(1 - right_s)
    mean_right_s = batch.group_sum(right_s * judged.value) / num_right_s.clamp(min=1)
    mean_wrong_s = batch.group_sum((1 - right_s) * judged.value) / num_wrong_s.clamp(min=1)
    mixed_s = (num_right_s > 0) & (num_wrong_s > 0)
    trust_s = torch.exp((mean_right_s - mean_wrong_s).clamp(max=0.0))
    if bool(mixed_s.any()):
        context.metrics["trust"] = float(trust_s[mixed_s].mean())
    fade = math.exp(-context.step / config.horizon)
    bonus_s = judged.weighted * fade * trust_s.masked_fill(~mixed_s, 0.0).float()
    others = [part.weighted for part in parts if part.name != config.part]
    return torch.stack([*others, bonus_s]).sum(0)
