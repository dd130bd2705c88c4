"""How often the reward errs on either side: given, or estimated by checking some responses again (appeals)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from components.rl.configs import SlotConfig
from components.rl.labels import OUTCOMES
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Generator, Tensor

    from components.rl.batch.batch import Batch

MOST = 0.49
"""Highest rate: from one half on a verdict says nothing, and the backward correction divides by what is left."""


class NoiseRatesConfig(SlotConfig):
    """The rates to begin with, and how many responses are checked again."""

    reads: ClassVar[frozenset[str]] = frozenset({OUTCOMES})
    writes: ClassVar[frozenset[str]] = frozenset({"false_positive_rate_s", "false_negative_rate_s"})
    false_positives: float = Field(default=0.1, ge=0, le=MOST)
    """rho_0: probability that a wrong response is rewarded as right, until it is estimated."""
    false_negatives: float = Field(default=0.2, ge=0, le=MOST)
    """rho_1: probability that a right response is rewarded as wrong, until it is estimated."""
    appeals: float = Field(default=0.1, ge=0, le=1)
    """Share of the responses rewarded as wrong that the item's verifier checks again; 0: rho_1 stays as given."""
    appeals_of_right: float = Field(default=0.0, ge=0, le=1)
    """Share of those rewarded as right; 0: rho_0 stays as given, and all of them count as right."""
    decay: float = Field(default=0.9, ge=0, lt=1)
    """Share of the earlier counts that is kept at each step."""
    by_domain: bool = False
    """Whether each domain has rates of its own."""
    right_from: float = 0.5
    """Lowest reward of a response that is taken for right."""


def noise_rates(batch: Batch, context: SlotContext, *, config: NoiseRatesConfig) -> Batch:
    """Mark `false_positive_rate_s` and `false_negative_rate_s` [S], in [0, 0.49].

    Of N responses rewarded as wrong, m drawn at random are checked again by their outcome; with a of them right,
    N a / m are false negatives (FN), and rho_1 = FN / (FN + TP). TP are those rewarded as right, less their false
    positives where those are checked too; rho_0 = FP / (FP + TN) likewise. Counts are averaged over steps. Metrics:
    `false_positive_rate`, `false_negative_rate` and `appeals`, the share of responses checked again.

    Source: Cai et al. 2025, Reinforcement Learning with Verifiable yet Noisy Rewards under Imperfect Verifiers
    (arXiv:2510.00915), appeals. Ours: counts and not rates are averaged, since a mean of ratios is biased, the bound of
    0.49, and rates by domain.
    """
    import torch

    from components.rl.batch.batch import RIGHT
    from components.tasks.seeds import derive_seed

    number = context.memory.get("batches", 0)
    context.memory["batches"] = number + 1
    generator = torch.Generator().manual_seed(derive_seed(context.seed, "noise_rates", number))
    taken_t = batch.of_traces(batch.rewards >= config.right_from)
    right_t = batch.of_traces(batch.outcomes == RIGHT)
    group_t = batch.of_traces(batch.group).tolist()
    keys = [batch.prompts[group].item.domain if config.by_domain else "" for group in group_t]
    rates, checked = {}, 0
    for key in dict.fromkeys(keys):
        here_t = torch.tensor([each == key for each in keys])
        found, count = _counts(taken_t & here_t, ~taken_t & here_t, right_t, config, generator)
        checked += count
        rates[key] = _rates(_averaged(context.memory, key, found, config.decay), config)
    positive_t, negative_t = (torch.tensor([rates[key][side] for key in keys]) for side in (0, 1))
    if keys:
        context.metrics["false_positive_rate"] = float(positive_t.double().mean())
        context.metrics["false_negative_rate"] = float(negative_t.double().mean())
        context.metrics["appeals"] = checked / len(keys)
    return batch.with_extras(
        false_positive_rate_s=batch.to_rows(positive_t), false_negative_rate_s=batch.to_rows(negative_t)
    )


def _counts(
    taken_t: Tensor, refused_t: Tensor, right_t: Tensor, config: NoiseRatesConfig, generator: Generator
) -> tuple[list[float] | None, int]:
    """Return estimates of [TP, FP, FN, TN], None without appeals, and how many responses were checked for them."""
    import torch

    def right_among(rows_t: Tensor, share: float) -> tuple[float, int]:
        rows = rows_t.nonzero().squeeze(1)
        count = math.ceil(share * len(rows))
        if not count:
            return 0.0, 0
        drawn = rows[torch.randperm(len(rows), generator=generator)[:count]]
        return float(right_t[drawn].double().mean()) * len(rows), count

    taken, refused = int(taken_t.sum()), int(refused_t.sum())
    fn, of_refused = right_among(refused_t, config.appeals)
    tp, of_taken = right_among(taken_t, config.appeals_of_right)
    if not config.appeals_of_right:
        tp = float(taken)
    estimated = config.appeals or config.appeals_of_right
    return ([tp, taken - tp, fn, refused - fn] if estimated else None), of_refused + of_taken


def _averaged(memory: dict[str, object], key: str, found: list[float] | None, decay: float) -> list[float] | None:
    """Return the moving average of the counts of a key, moved on by those of this step."""
    if found is None:
        return None
    counts = memory.setdefault("counts", {})
    assert isinstance(counts, dict)
    earlier = counts.get(key, found)
    counts[key] = [decay * old + (1 - decay) * new for old, new in zip(earlier, found, strict=True)]
    kept: list[float] = counts[key]
    return kept


def _rates(counts: list[float] | None, config: NoiseRatesConfig) -> tuple[float, float]:
    """Return rho_0 and rho_1: estimated where responses were checked again, else as given."""
    tp, fp, fn, tn = counts or (0.0, 0.0, 0.0, 0.0)
    positive = fp / (fp + tn) if config.appeals_of_right and fp + tn else config.false_positives
    negative = fn / (fn + tp) if config.appeals and fn + tp else config.false_negatives
    return min(positive, MOST), min(negative, MOST)
