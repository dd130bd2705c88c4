"""ADCL's sampler: from easy to hard, with difficulty measured again before each part."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from pydantic import Field

from components.rl.configs import SlotConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from components.rl.batch.batch import Prompt


class AdaptiveDifficultyConfig(SlotConfig):
    """How the pool is split, and how often difficulty is measured."""

    num_parts: int = Field(default=4, ge=1)
    """K: parts of similar difficulty that the pool is split into."""
    num_samples: int = Field(default=8, ge=1)
    """Responses used to measure the difficulty of a prompt, 1 - pass rate."""
    measure_again: bool = True
    """Whether each part is measured with the current policy and sorted again before it begins; false keeps the first
    order, a fixed curriculum."""
    hardest_first: bool = False
    """Whether the order is reversed."""


def adaptive_difficulty(
    pool: Sequence[Prompt], count: int, context: SlotContext, *, config: AdaptiveDifficultyConfig
) -> list[int]:
    """Return the next `count` indices, part by part; after the last part the first one follows again.

    Source: Zhang et al. 2025, Learning Like Humans (arXiv:2505.08364), adaptive difficulty curriculum learning. The
    first measurement, of the whole pool, splits it into parts; later ones reorder only the next part.
    """
    memory = context.memory
    if "parts" not in memory:
        order = _sorted(range(len(pool)), pool, context, config)
        borders = [len(pool) * part // config.num_parts for part in range(config.num_parts + 1)]
        memory["parts"] = [order[low:high] for low, high in pairwise(borders) if low < high]
        memory["begun"], memory["queue"], memory["walked"] = 0, [], []
    picked: list[int] = []
    while len(picked) < count:
        if not memory["queue"]:
            _report_order(pool, context)
            part = memory["parts"][memory["begun"] % len(memory["parts"])]
            fresh = memory["begun"] == 0 or not config.measure_again
            memory["queue"] = list(part) if fresh else _sorted(part, pool, context, config)
            memory["begun"] += 1
        taken = memory["queue"][: count - len(picked)]
        memory["queue"] = memory["queue"][len(taken) :]
        memory["walked"] += [[context.step, index] for index in taken]
        picked += taken
    return picked


def _report_order(pool: Sequence[Prompt], context: SlotContext) -> None:
    """Report the rank correlation between the finished part's order and the difficulty of its prompts when drawn."""
    from scipy.stats import spearmanr

    walked: list[list[int]] = context.memory["walked"]
    context.memory["walked"] = []
    if not walked:
        return
    rates = {(v.step, v.prompt_id): v.pass_rate for v in context.ledger.visits(since_step=walked[0][0])}
    seen = [rates.get((step, pool[index].item.id)) for step, index in walked]
    difficulty = [(place, 1 - rate) for place, rate in enumerate(seen) if rate is not None]
    correlation = float(spearmanr(difficulty).statistic) if len({size for _, size in difficulty}) > 1 else math.nan
    if math.isfinite(correlation):
        context.metrics["order_correlation"] = correlation


def _sorted(
    indices: Sequence[int], pool: Sequence[Prompt], context: SlotContext, config: AdaptiveDifficultyConfig
) -> list[int]:
    """Sort by current pass rate, easiest first; ties keep their order, unverifiable prompts count as hardest."""
    rates = context.collector.probe([pool[index] for index in indices], config.num_samples).nan_to_num(0.0).tolist()
    difficulty = {index: 1 - rate for index, rate in zip(indices, rates, strict=True)}
    sign = -1 if config.hardest_first else 1
    return sorted(indices, key=lambda index: sign * difficulty[index])
