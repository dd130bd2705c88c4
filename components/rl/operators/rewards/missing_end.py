"""A penalty for responses that did not end by themselves, beside rewards that cannot see that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from components.rl.configs import RewardConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class MissingEndConfig(RewardConfig):
    """How much a missing end costs."""

    penalty: float = Field(default=1.0, gt=0)
    """Taken off the reward. TRL's examples take 1.0."""


def missing_end(batch: Batch, context: SlotContext, *, config: MissingEndConfig) -> Tensor:
    """Return [S]: -penalty where a response, or any row of its trajectory, was cut at `max_new_tokens`, else 0.

    Reward models read a response that was cut as if it had ended there. Beside reward `scorer`, and summed with it as
    rewards are by default, it does what TRL calls `missing_eos_penalty`.

    Source: TRL 1.16, OnlineDPOTrainer (rewards[~contain_eos_token] -= missing_eos_penalty).
    """
    return -config.penalty * batch.to_rows(batch.any_of_traces(~batch.finished)).float()
