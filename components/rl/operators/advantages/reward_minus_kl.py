"""REINFORCE++'s return: the outcome minus the remaining divergence from the reference."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from components.rl.configs import AdvantageConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class RewardMinusKLConfig(AdvantageConfig):
    """The price of divergence."""

    reads: ClassVar[frozenset[str]] = frozenset({"reference_logprobs"})
    coefficient: float = Field(default=0.001, ge=0)
    """beta: price of one nat of divergence in units of reward."""


def reward_minus_kl(batch: Batch, context: SlotContext, *, config: RewardMinusKLConfig) -> Tensor:
    """Return [N]: A_t = R - beta sum over k >= t of (log pi_old(o_k) - log pi_ref(o_k)).

    Of rewards that are received at tokens, R is the sum from t on.
    The estimate k1 inside the reward has the gradient of KL(policy || reference) in expectation.
    Source: Hu et al. 2025, REINFORCE++ (arXiv:2501.03262), advantage of the variant without a group baseline.
    """
    from components.rl.batch.returns import reward_to_go, suffix_sum

    divergence_n = batch.old_logprobs - batch.reference_logprobs
    return reward_to_go(batch) - config.coefficient * suffix_sum(batch, divergence_n)
