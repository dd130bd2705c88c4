"""Groups whose rewards vary too little are replaced, by a threshold that follows the run (RLPR)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from pydantic import Field

from components.rl.configs import SlotConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from components.rl.batch.batch import Batch


class EMASpreadConfig(SlotConfig):
    """The threshold, and how many rounds to search for groups above it."""

    factor: float = Field(default=0.5, ge=0)
    """beta: the threshold as a share of the moving average of the spread."""
    decay: float = Field(default=0.99, ge=0, lt=1)
    """Share of the old average that is kept at each step."""
    measure_from: int = Field(default=6, ge=1)
    """First step, counted from 1, whose spread is measured; the average begins as the mean up to `filter_from`."""
    filter_from: int = Field(default=11, ge=1)
    """First step, counted from 1, that is filtered."""
    max_refills: int = Field(default=3, ge=0, le=100)
    """Rounds of new prompts, each at most as large as the first; after them the batch may stay short."""


def ema_spread(batch: Batch, more: Callable[[int], Batch], context: SlotContext, *, config: EMASpreadConfig) -> Batch:
    """Keep groups whose standard deviation of rewards (ddof 1) is at least factor * average; refill as in DAPO.

    Reads rewards, not outcomes. Metrics: `spread`, the mean over the step's drawn groups; `spread_threshold`.

    Source: Yu et al. 2025, RLPR (arXiv:2506.18254), section 3.3 and released code: average from step 6, filter from
    step 11. The bound on refills is ours.
    """
    from components.rl.batch.joining import concatenate

    threshold = _threshold(context, config)
    spreads: list[float] = []

    def kept_of(drawn: Batch) -> Batch:
        spread_s = drawn.group_std(drawn.rewards, ddof=1)
        spreads.extend(dict(zip(drawn.group.tolist(), spread_s.tolist(), strict=True)).values())
        return drawn if threshold is None else drawn.select(spread_s >= threshold)

    wanted, kept = batch.num_prompts, kept_of(batch)
    for _ in range(0 if threshold is None else config.max_refills):
        missing = wanted - kept.num_prompts
        if missing <= 0:
            break
        share = max(kept.num_prompts, 1) / len(spreads)
        kept = concatenate([kept, kept_of(more(min(wanted, math.ceil(missing / share))))])
    if spreads:
        mean = math.fsum(spreads) / len(spreads)
        context.metrics["spread"] = mean
        if context.step + 1 >= config.measure_from:
            context.memory.setdefault("means", []).append(mean)
    return kept.first_groups(wanted)


def _threshold(context: SlotContext, config: EMASpreadConfig) -> float | None:
    """Return the threshold of this step, moving the average on; None before `filter_from` or without a measure."""
    means: list[float] = context.memory.get("means", [])
    if context.step + 1 < config.filter_from or not means:
        return None
    if "average" not in context.memory:
        average = math.fsum(means) / len(means)
    else:
        average = config.decay * float(context.memory["average"]) + (1 - config.decay) * means[-1]
    context.memory.update(average=average, means=means[-1:])
    context.metrics["spread_threshold"] = config.factor * average
    return config.factor * average
