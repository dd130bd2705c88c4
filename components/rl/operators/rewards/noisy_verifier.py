"""A verifier that errs: some verdicts are flipped before they become rewards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from components.rl.configs import RewardConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class NoisyVerifierConfig(RewardConfig):
    """How often it errs, and the values of the two outcomes."""

    false_positives: float = Field(default=0.1, ge=0, le=1)
    """Probability that a wrong response is rewarded as right."""
    false_negatives: float = Field(default=0.1, ge=0, le=1)
    """Probability that a right response is rewarded as wrong."""
    right: float = 1.0
    """Reward of a response that is taken for right."""
    wrong: float = 0.0
    """Reward of a response that is taken for wrong."""


def noisy_verifier(batch: Batch, context: SlotContext, *, config: NoisyVerifierConfig) -> Tensor:
    """Return [S]: `right` or `wrong` by a verdict that is flipped at random, for each response on its own.

    Only rewards are noisy: outcomes, and what is counted by them (pass rates, the ledger), stay clean. The memory holds
    how many batches were judged, so that a resumed run flips the same verdicts. Metric `flipped_share`: of the step's
    last batch. Source: the noisy channel of Cai et al. 2025, Reinforcement Learning with Verifiable yet Noisy Rewards
    under Imperfect Verifiers.
    """
    import torch

    from components.rl.batch.batch import RIGHT
    from components.tasks.seeds import derive_seed

    number = context.memory.get("batches", 0)
    context.memory["batches"] = number + 1
    generator = torch.Generator().manual_seed(derive_seed(context.seed, "noisy_verifier", number))
    right_t = batch.of_traces(batch.outcomes == RIGHT)
    rate_t = torch.where(right_t, config.false_negatives, config.false_positives)
    flipped_t = torch.rand(batch.num_traces, generator=generator) < rate_t
    if batch.num_traces:
        context.metrics["flipped_share"] = float(flipped_t.double().mean())
    taken_s = batch.to_rows(right_t ^ flipped_t)
    return config.wrong + (config.right - config.wrong) * taken_s.float()
