"""Advantages in groups with demonstrations: the baseline is the policy's own responses alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from components.rl.configs import AdvantageConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class OnPolicyGroupConfig(AdvantageConfig):
    """How the baseline of a group is computed."""

    divide_by_std: bool = False
    """Whether rewards are also divided by the standard deviation (ddof 1) of the own responses; 0 counts as 1."""
    epsilon: float = Field(default=1e-6, ge=0)
    """Added to the standard deviation."""


def on_policy_group(batch: Batch, context: SlotContext, *, config: OnPolicyGroupConfig) -> Tensor:
    """Return [S]: R_i minus the mean reward of the group's own responses, for external responses too.

    A right demonstration thus counts fully where the policy fails, and not at all where it succeeds. A group without
    own responses has no baseline: its advantages are 0.
    Source: Dong et al. 2025, RL-PLUS (arXiv:2508.00222) and its released code.
    """
    own_s = (~batch.external).double()
    reward_s = batch.rewards.double()
    count_s = batch.group_sum(own_s)
    mean_s = batch.group_sum(reward_s * own_s) / count_s.clamp(min=1)
    centred_s = (reward_s - mean_s).masked_fill(count_s == 0, 0.0)
    if not config.divide_by_std:
        return centred_s.to(batch.rewards.dtype)
    spread_s = (batch.group_sum((centred_s * own_s).square()) / (count_s - 1).clamp(min=1)).sqrt()
    spread_s = spread_s.masked_fill(spread_s < 1e-9, 1.0)  # rounding noise of equal rewards
    return (centred_s / (spread_s + config.epsilon)).to(batch.rewards.dtype)
