"""The reward of a whole response less the price of its divergence from the reference, without a baseline."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from components.rl.configs import AdvantageConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class RewardLessDivergenceConfig(AdvantageConfig):
    """The price of divergence."""

    reads: ClassVar[frozenset[str]] = frozenset({"reference_logprobs"})
    coefficient: float = Field(default=0.1, ge=0)
    """beta: price of one nat of divergence of a response in units of reward."""


def reward_less_divergence(batch: Batch, context: SlotContext, *, config: RewardLessDivergenceConfig) -> Tensor:
    """Return [S]: R - beta sum over tokens of (log pi_old - log pi_ref), of each response as a whole.

    Held fixed while the step learns. Unlike `reward_minus_kl` it is one number for the response, as objectives want it
    that compare responses.

    Source: Wu et al. 2023, P3O (arXiv:2310.00212), section 4: the reward with the divergence in it.
    """
    return batch.rewards - config.coefficient * batch.response_sum(batch.old_logprobs - batch.reference_logprobs)
