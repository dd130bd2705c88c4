"""Backward correction of a reward that errs: an unbiased estimate of the clean reward, less the mean of its group."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from components.rl.configs import AdvantageConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class BackwardCorrectionConfig(AdvantageConfig):
    """Whether a baseline is taken off."""

    reads: ClassVar[frozenset[str]] = frozenset({"false_positive_rate_s", "false_negative_rate_s"})
    centred: bool = True
    """Whether the mean of the group is taken off the estimates."""


def backward_correction(batch: Batch, context: SlotContext, *, config: BackwardCorrectionConfig) -> Tensor:
    """Return [S]: (R - rho_0) / (1 - rho_0 - rho_1) for rewards of 0 or 1, less the mean of the group.

    Its mean over errors is the clean reward. Within a group of one pair of rates that is the ordinary advantage times
    1 / (1 - rho_0 - rho_1): rates change weights between prompts alone, and a division by the standard deviation of the
    group takes that away, too.

    Source: Cai et al. 2025, Reinforcement Learning with Verifiable yet Noisy Rewards under Imperfect Verifiers
    (arXiv:2510.00915), backward correction. Reconstructed: no division by the standard deviation.
    """
    positive_s, negative_s = batch.extras["false_positive_rate_s"], batch.extras["false_negative_rate_s"]
    estimate_s = (batch.rewards - positive_s) / (1 - positive_s - negative_s)
    return batch.group_centred(estimate_s) if config.centred else estimate_s
