"""REINFORCE++'s normalisation: advantages with mean 0 and standard deviation 1 over the whole batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from components.rl.configs import AdvantageConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class WhitenConfig(AdvantageConfig):
    """What is averaged over, and the epsilon of the variance."""

    over: Literal["tokens", "responses"] = "tokens"
    """tokens: each token counts once. responses: each response counts once, by the mean of its tokens."""
    epsilon: float = Field(default=1e-8, gt=0)
    """Added to the variance."""


def whiten(batch: Batch, context: SlotContext, *, config: WhitenConfig) -> Tensor:
    """Return [N]: (A - mean) / sqrt(variance + epsilon) of the advantages so far, over all of the step.

    Unlike a group's deviation, the batch's hardly depends on the single response, so the estimate is nearly unbiased.
    All 0 if all advantages are equal.
    Source: Hu et al. 2025, REINFORCE++ (arXiv:2501.03262), global advantage normalisation; variance over tokens,
    without Bessel's correction, as in OpenRLHF.
    """
    if not batch.num_tokens:
        return batch.advantages
    advantage_n = batch.advantages.double()
    values = advantage_n if config.over == "tokens" else batch.of_traces(batch.response_mean(advantage_n))
    if bool((values == values[0]).all()):
        return batch.advantages * 0
    scale = (values.var(correction=0) + config.epsilon).sqrt()
    return ((advantage_n - values.mean()) / scale).to(batch.advantages.dtype)
