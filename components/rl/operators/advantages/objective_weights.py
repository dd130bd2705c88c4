"""RECAP's weights: more for objectives that are stuck or unstable, less for saturated and steady ones."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pydantic import Field

from components.rl.configs import AdvantageConfig
from components.rl.curricula.categories import softmax
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class ObjectiveWeightsConfig(AdvantageConfig):
    """The window, the sharpness of the weights, and how the two signals share them."""

    window: int = Field(default=10, ge=1)
    """W: at most 2 W steps of history are kept."""
    temperature: float = Field(default=5.0, gt=0)
    """T of both softmaxes; smaller values favour the highest score more."""
    convergence_share: float = Field(default=0.5, ge=0, le=1)
    """alpha: share of convergence in the weights; the rest is instability's."""
    epsilon: float = Field(default=1e-15, gt=0)
    """Added to the divisors of convergence and instability."""


def objective_weights(batch: Batch, context: SlotContext, *, config: ObjectiveWeightsConfig) -> Tensor:
    """Return [N]: the advantages so far times the weight of their objective. An objective is a domain of prompts.

    Its value at a step is the mean reward of its responses, this step's included. The weights of K objectives are
    w_k = K (alpha softmax(c / T)_k + (1 - alpha) softmax(i / T)_k), from the first step on; with c = 1 and i = 0 there.
    Metrics: `weight_<domain>`, `objective_<domain>` (the value).

    Source: Phan et al. 2025, Beyond Reasoning Gains (RECAP, arXiv:2510.21978), section 4, and its released trainer,
    which averages the two softmaxes where the paper takes one softmax of c + i.
    """
    import torch

    history: dict[str, list[float]] = context.memory.setdefault("history", {})
    rewards_t = batch.of_traces(batch.rewards)
    domains = [batch.prompts[group].item.domain for group in batch.of_traces(batch.group).tolist()]
    for domain in sorted(set(domains)):
        rewards = rewards_t[torch.tensor([own == domain for own in domains])]
        history.setdefault(domain, []).append(float(rewards.double().mean()))
        del history[domain][: -2 * config.window]
        context.collector.metrics[f"objective_{domain}"] = history[domain][-1]
    weights = objective_weights_of(history, config)
    context.collector.metrics |= {f"weight_{domain}": weight for domain, weight in weights.items()}
    weight_t = torch.tensor([weights[domain] for domain in domains], dtype=batch.advantages.dtype)
    return batch.advantages * batch.to_tokens(batch.to_rows(weight_t))


def objective_weights_of(history: Mapping[str, Sequence[float]], config: ObjectiveWeightsConfig) -> dict[str, float]:
    """Return the weight of each objective from the rewards that are kept; their mean is 1.

    Of an odd number of values the oldest is left out. convergence c: the older half's mean over the newer half's, so
    below 1 where rewards rise and about 1 where they are stuck or saturated. instability i: population standard
    deviation over mean, of both halves.
    """
    convergence, instability = {}, {}
    for name, values in history.items():
        half = len(values) // 2
        kept = values[-2 * half :]  # of a single value: itself
        convergence[name] = sum(kept[:half]) / (sum(kept[half:]) + config.epsilon) if half else 1.0
        instability[name] = statistics.pstdev(kept) / (statistics.fmean(kept) + config.epsilon)
    by_convergence = softmax(convergence, config.temperature)
    by_instability = softmax(instability, config.temperature)
    own = config.convergence_share
    return {
        name: len(history) * (own * share + (1 - own) * by_instability[name]) for name, share in by_convergence.items()
    }
