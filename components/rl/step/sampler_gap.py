"""The sampler's gap: how far the log-probabilities of what drew the tokens are from the trainer's, and its correction.

Shapes as in components/rl/batch/batch.py.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from components.modeling.generation.samples import Samples
from components.rl.batch.batch import POLICY, Batch
from components.rl.batch.surrogate import truncated_weights
from components.rl.sampler_correction import SamplerCorrection
from components.rl.step.kl_estimates import kl_estimates

ROUNDING = 1e-4
"""Mean gap in nats up to which float32 alone explains that decoding differs from a pass over whole rows."""


@dataclass(frozen=True)
class GapSums:
    """Sums over tokens."""

    num_tokens: int
    absolute: float
    k3: float
    largest: float


def gap_sums(drawn: Tensor, own: Tensor) -> GapSums:
    """Return the sums over tokens [N] of the sampler's log-probabilities and the trainer's."""
    if not drawn.numel():
        return GapSums(0, 0.0, 0.0, 0.0)
    estimates = kl_estimates(drawn, own)
    distance_n = estimates["k1"].abs()
    return GapSums(drawn.numel(), float(distance_n.sum()), float(estimates["k3"].sum()), float(distance_n.max()))


def gap_of_update(part: Batch, logprobs: Tensor) -> GapSums:
    """Return the gap of a batch whose `old_logprobs` are the sampler's own, from a pass before the step's first update.

    Tokens that were scored again have none. It costs no pass of its own.
    """
    drawn_n = (part.author == POLICY) & (part.old_logprobs == part.behaviour_logprobs)
    return gap_sums(part.old_logprobs[drawn_n], logprobs[drawn_n])


class SamplerGap:
    """The gap over the draws of one step."""

    def __init__(self) -> None:
        self._sums: list[GapSums] = []
        self._floor = 0.0

    def add(self, samples: Samples) -> None:
        """Add one draw that was scored by the trained policy: the sampled tokens, without those of a prefix."""
        if samples.policy_logprobs is not None:
            self._sums.append(gap_sums(samples.logprobs[samples.sampled], samples.policy_logprobs[samples.sampled]))

    def add_update(self, sums: GapSums) -> None:
        """Add what an update measured on tokens that were not scored; told only where rounding does not explain it."""
        self._sums.append(sums)
        self._floor = ROUNDING

    @property
    def mean(self) -> float | None:
        """The mean absolute difference in nats a token; None if nothing was measured."""
        num_tokens = sum(sums.num_tokens for sums in self._sums)
        return sum(sums.absolute for sums in self._sums) / num_tokens if num_tokens else None

    def metrics(self) -> dict[str, float]:
        """Return mean and maximum absolute difference and KL(sampler || policy), per token; empty if not measured."""
        mean = self.mean
        if mean is None or mean < self._floor:
            return {}
        return {
            "sampler_gap_mean": mean,
            "sampler_gap_max": max(sums.largest for sums in self._sums),
            "sampler_gap_k3": sum(sums.k3 for sums in self._sums) / sum(sums.num_tokens for sums in self._sums),
        }


def corrected(batch: Batch, gap: SamplerGap, config: SamplerCorrection | None) -> tuple[Batch, dict[str, float]]:
    """Return the batch with truncated importance weights on the advantages of the policy's tokens, and their metrics.

    The batch itself, and no metrics, where the mean gap is within the bound or was not measured.
    """
    mean = gap.mean
    if config is None or mean is None or mean <= config.above or not batch.num_tokens:
        return batch, {}
    weight_n = torch.where(batch.author == POLICY, truncated_weights(batch, config.cap), 1.0)
    metrics = {"sampler_weight_mean": float(weight_n.double().mean()), "sampler_weight_min": float(weight_n.min())}
    return replace(batch, advantages=batch.advantages * weight_n), metrics
