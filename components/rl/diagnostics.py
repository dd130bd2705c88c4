"""What is worth knowing about a step: of the samples, of the update, of the way from the start."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from components.modeling.logprobs import TokenScores
from components.modeling.optimizer import Update
from components.modeling.tokenizer import THINK
from components.rl.batch import FAILED, RIGHT, WRONG, Batch
from components.rl.slots import TokenLoss


def sample_metrics(batch: Batch) -> dict[str, float]:
    """Describe all samples of a step, before any filter. Means over nothing are left out.

    signal_share: groups with both outcomes. length_*: tokens, the end included. trace_share: responses with a
    thinking mark. truncated_share: responses cut at the token limit. entropy: mean over tokens, in nats.
    """
    right, wrong, failed = (batch.outcomes == code for code in (RIGHT, WRONG, FAILED))
    verified = batch.select(~failed)
    lengths = batch.lengths.double()
    traces = torch.tensor([THINK in text for text in batch.texts], dtype=torch.bool)
    metrics = {
        "num_samples": float(batch.num_responses),
        "num_failed": float(failed.sum()),
        "reward_mean": _mean(verified.rewards),
        "reward_std": float(verified.rewards.double().std(correction=0)) if verified.num_responses else math.nan,
        "pass_rate": _mean(right[~failed]),
        "signal_share": signal_share(verified),
        "entropy": _mean(batch.entropies),
        "length_mean": _mean(lengths),
        "length_max": float(lengths.max()) if batch.num_responses else math.nan,
        "length_right": _mean(lengths[right]),
        "length_wrong": _mean(lengths[wrong]),
        "trace_share": _mean(traces),
        "truncated_share": _mean(~batch.finished),
    }
    return {name: value for name, value in metrics.items() if math.isfinite(value)}


def signal_share(batch: Batch) -> float:
    """Return the share of groups that hold both right and wrong responses."""
    first_of_group = torch.ones(batch.num_responses, dtype=torch.bool)
    first_of_group[1:] = batch.group[1:] != batch.group[:-1]
    return _mean(~batch.group_is_equal(batch.outcomes)[first_of_group])


def divergence(logprobs: Tensor, other: Tensor) -> dict[str, float]:
    """Estimate KL(policy || other) per token from the policy's samples: k1, k2 and k3 (Schulman 2020).

    Shapes: both [N], log-probabilities of the sampled tokens.
    """
    difference = logprobs.double() - other.double()
    return {
        "start_kl_k1": _mean(difference),
        "start_kl_k2": _mean(difference.square() / 2),
        "start_kl_k3": _mean(torch.expm1(-difference) + difference),
    }


class UpdateTally:
    """Running sums over the forward passes and updates of one step."""

    def __init__(self) -> None:
        self._sums: dict[str, float] = {}
        self._num_tokens = 0
        self._updates: list[Update] = []
        self._loss = 0.0
        self._ratio_sum = self._ratio_squares = 0.0
        self._ratio_min, self._ratio_max = math.inf, -math.inf

    def add_part(self, part: Batch, scores: TokenScores, losses: Sequence[TokenLoss], loss: Tensor) -> None:
        """Take in one forward pass."""
        self._num_tokens += part.num_tokens
        self._loss += float(loss.detach())
        for token_loss in losses:
            for name, value_n in token_loss.metrics.items():
                self._sums[name] = self._sums.get(name, 0.0) + float(value_n.double().sum())
        ratio_n = torch.exp(scores.logprobs.detach().double() - part.old_logprobs.double())
        self._ratio_sum += float(ratio_n.sum())
        self._ratio_squares += float(ratio_n.square().sum())
        self._ratio_min = min(self._ratio_min, float(ratio_n.min()))
        self._ratio_max = max(self._ratio_max, float(ratio_n.max()))

    def add_update(self, update: Update) -> None:
        """Take in one optimiser update."""
        self._updates.append(update)

    def metrics(self) -> dict[str, float]:
        """Return means over tokens and updates; nothing but the count when there was no update.

        ess: effective sample size of the importance ratios over the number of tokens, (sum r)^2 / (n sum r^2).
        """
        metrics = {"num_updates": float(len(self._updates))}
        if not self._updates:
            return metrics
        metrics |= {name: value / self._num_tokens for name, value in self._sums.items()}
        return metrics | {
            "loss": self._loss / len(self._updates),
            "grad_norm": math.fsum(update.grad_norm for update in self._updates) / len(self._updates),
            "learning_rate": self._updates[-1].learning_rate,
            "num_trained_tokens": float(self._num_tokens),
            "ratio_min": self._ratio_min,
            "ratio_max": self._ratio_max,
            "ess": self._ratio_sum**2 / (self._num_tokens * self._ratio_squares),
        }


def _mean(values: Tensor) -> float:
    return float(values.double().mean()) if values.numel() else math.nan
