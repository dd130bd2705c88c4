"""CANON: responses are compared with the ones on the other side of a metric's median, and on their own side."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from components.rl.configs import AdvantageConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class CanonConfig(AdvantageConfig):
    """The metric that splits a group, and the weight of the comparison between its halves."""

    step_entropies: ClassVar[bool] = True
    metric: Literal["entropy", "length"] = "entropy"
    """Mean token entropy of a response, or its length in tokens."""
    mu: float = Field(default=1.0, ge=0, le=1)
    """Weight of the comparison with the other half; the own half has 1 - mu. 1/2 gives the group mean."""
    schedule: Literal["constant", "accuracy", "cosine"] = "constant"
    """constant: mu. accuracy: mu times the share of wrong responses in the batch. cosine: a linear rise to mu in
    `warmup_steps`, then half-cosines from mu to 0, each `cycle_steps` long."""
    warmup_steps: int = Field(default=30, ge=0)
    """For schedule cosine."""
    cycle_steps: int = Field(default=40, ge=1)
    """For schedule cosine."""
    alpha: float = Field(default=1.0, gt=0)
    """Factor of one half's rewards when halves are compared, of the longer half or of the one with the lower entropy:
    below 1, the shorter or the more uncertain half wins ties."""


def canon(batch: Batch, context: SlotContext, *, config: CanonConfig) -> Tensor:
    """Return [S]: mu (r - mean of the other half) + (1 - mu) (r - mean of the own half); 0 for a single response.

    A group is sorted by the metric; the first half, rounded down, is the lower side. Rows with equal metrics keep
    their order. Neither side is preferred in advance. Source: Chen et al. 2025, Conditional Advantage
    Estimation (arXiv:2509.23962), and its released code.
    """
    import torch

    if config.metric == "length":
        metric_s = batch.response_lengths.double()
    else:
        metric_s = batch.response_mean(batch.entropies.double())
    upper_s, alone_s = _upper(batch, metric_s), batch.group_sizes < 2
    reward_s = batch.rewards.double()
    low_s, high_s = _mean_where(batch, reward_s, ~upper_s), _mean_where(batch, reward_s, upper_s)
    in_low, in_high = (1.0, config.alpha) if config.metric == "length" else (config.alpha, 1.0)
    inter_s = torch.where(upper_s, in_high * reward_s - in_low * low_s, in_low * reward_s - in_high * high_s)
    intra_s = reward_s - torch.where(upper_s, high_s, low_s)
    mu = _mu(batch, context.step, config)
    return (mu * inter_s + (1 - mu) * intra_s).masked_fill(alone_s, 0.0)


def _upper(batch: Batch, metric_s: Tensor) -> Tensor:
    """Return [S] bool: whether a response is on the upper side of its group."""
    import torch

    group_t = batch.of_traces(batch.group)
    order = torch.argsort(batch.of_traces(metric_s), stable=True)
    order = order[torch.argsort(group_t[order], stable=True)]
    sizes = torch.bincount(group_t, minlength=batch.num_prompts)
    first = (sizes.cumsum(0) - sizes)[group_t[order]]
    rank_t = torch.empty_like(group_t)
    rank_t[order] = torch.arange(batch.num_traces) - first
    return batch.to_rows(rank_t) >= batch.group_sizes // 2


def _mean_where(batch: Batch, value_s: Tensor, chosen_s: Tensor) -> Tensor:
    """Return [S]: the mean over the chosen responses of each group, 0 where there are none."""
    return batch.group_sum(value_s * chosen_s) / batch.group_sum(chosen_s.double()).clamp(min=1)


def _mu(batch: Batch, step: int, config: CanonConfig) -> float:
    from components.rl.batch.batch import RIGHT

    if config.schedule == "accuracy":
        return config.mu * (1 - float(batch.of_traces(batch.outcomes == RIGHT).double().mean()))
    if config.schedule == "constant":
        return config.mu
    if step < config.warmup_steps:
        return config.mu * (step + 1) / config.warmup_steps
    phase = (step - config.warmup_steps) % config.cycle_steps / config.cycle_steps
    return config.mu * (1 + math.cos(math.pi * phase)) / 2
