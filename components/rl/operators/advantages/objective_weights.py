"""RECAP's weights: more for objectives that are stuck or unstable, less for saturated ones."""

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
    """The window and the sharpness of the weights."""

    window: int = Field(default=10, ge=2)
    """w: steps in the recent and in the previous window; also the interval between changes of the weights."""
    temperature: float = Field(default=1.0, gt=0)
    """T of the softmax over scores; smaller values favour the highest score more."""
    convergence_max: float = Field(default=2.0, gt=0)
    """Largest convergence: an objective that fell back counts no more than one whose headroom doubled."""
    epsilon: float = Field(default=1e-6, gt=0)
    """Added to the divisors of convergence and instability."""


def objective_weights(batch: Batch, context: SlotContext, *, config: ObjectiveWeightsConfig) -> Tensor:
    """Return [N]: the advantages so far times the weight of their objective. An objective is a domain of prompts.

    Its value at a step is l = 1 - mean reward. After two windows, and then at every w-th step, weights become
    w_k = K softmax(score / T) with score = (convergence + instability) * recent mean of l. Neither is negative, so an
    objective never loses weight by having more headroom.
    Metrics: `weight_<domain>`, `headroom_<domain>` (l).

    Source: Phan et al. 2025, Beyond Reasoning Gains (RECAP, arXiv:2510.21978): weights from short-horizon convergence
    and instability. Reconstructed: every formula and the window.
    """
    import torch

    history: dict[str, list[float]] = context.memory.setdefault("history", {})
    weights: dict[str, float] = context.memory.setdefault("weights", {})
    rewards_t = batch.of_traces(batch.rewards)
    domains = [batch.prompts[group].item.domain for group in batch.of_traces(batch.group).tolist()]
    for domain in sorted(set(domains)):
        rewards = rewards_t[torch.tensor([own == domain for own in domains])]
        history.setdefault(domain, []).append(1.0 - float(rewards.double().mean()))
        del history[domain][: -2 * config.window]
        context.collector.metrics[f"headroom_{domain}"] = history[domain][-1]
    full = all(len(values) == 2 * config.window for values in history.values())
    if history and full and (context.step + 1) % config.window == 0:
        weights.update(objective_weights_of(history, config))
    context.collector.metrics |= {f"weight_{domain}": weights.get(domain, 1.0) for domain in history}
    weight_t = torch.tensor([weights.get(domain, 1.0) for domain in domains], dtype=batch.advantages.dtype)
    return batch.advantages * batch.to_tokens(batch.to_rows(weight_t))


def objective_weights_of(history: Mapping[str, Sequence[float]], config: ObjectiveWeightsConfig) -> dict[str, float]:
    """Return the weight of each objective from its last 2 w values; their mean is 1.

    convergence c = m(t) / (m(t - w) + epsilon), about 1 where stuck; instability i = s(t) / (|m(t)| + epsilon), with m
    and s mean and population standard deviation of a window.
    """
    scores = {}
    for name, values in history.items():
        recent = values[-config.window :]
        mean, before = statistics.fmean(recent), statistics.fmean(values[-2 * config.window : -config.window])
        convergence = min(mean / (before + config.epsilon), config.convergence_max)
        instability = statistics.pstdev(recent) / (abs(mean) + config.epsilon)
        scores[name] = (convergence + instability) * mean
    shares = softmax(scores, config.temperature)
    return {name: len(shares) * share for name, share in shares.items()}
