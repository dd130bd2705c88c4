"""Adaptive DAPO: as many prompts at once as should leave a full batch of groups with both outcomes (CodeV-R1)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from components.rl.configs import SlotConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from components.rl.batch.batch import Batch


class AdaptiveRateConfig(SlotConfig):
    """How the share of useful groups is followed."""

    reads: ClassVar[frozenset[str]] = frozenset({"outcomes"})
    decay: float = Field(default=0.9, ge=0, le=1)
    """Share of the old estimate that is kept at each step; 1 keeps `first`: over-sampling at a fixed rate."""
    first: float = Field(default=1.0, gt=0, le=1)
    """Share of useful groups that the first step expects."""
    least: float = Field(default=0.1, gt=0, le=1)
    """Least share that is expected, so that at most 1 / least batches are drawn at once."""
    max_refills: int = Field(default=0, ge=0, le=100)
    """Further rounds for the groups that are missing, at the same rate; without any the batch may stay short."""


def adaptive_rate(
    batch: Batch, more: Callable[[int], Batch], context: SlotContext, *, config: AdaptiveRateConfig
) -> Batch:
    """Keep groups with 0 < right < all of ceil(B / e) prompts, at most B of them; e follows the share that is kept.

    The stage has drawn B = `prompts_per_step` prompts already, so the others are drawn at once beside them. Metrics:
    `useful_share` of the step's groups, `expected_share` e before the step, `drawn_for_used` (generated / used groups).

    Source: Zhu et al. 2025, CodeV-R1 (arXiv:2505.24183), adaptive DAPO. The moving average, its constants and the
    bound are reconstructed; leftovers are not used again.
    """
    from components.rl.batch.joining import concatenate

    wanted = batch.num_prompts
    expected = max(config.least, float(context.memory.get("share", config.first)))
    kept, drawn = _both_outcomes(batch), wanted
    for round_ in range(config.max_refills + 1):
        missing = wanted - kept.num_prompts if round_ else wanted
        count = math.ceil(missing / expected - 1e-9) - (0 if round_ else wanted)
        if count <= 0:
            continue
        fresh = more(count)
        drawn += fresh.num_prompts
        kept = concatenate([kept, _both_outcomes(fresh)])
    share = kept.num_prompts / drawn if drawn else 0.0
    context.memory["share"] = config.decay * float(context.memory.get("share", config.first))
    context.memory["share"] += (1 - config.decay) * share
    used = min(wanted, kept.num_prompts)
    context.metrics.update(useful_share=share, expected_share=expected)
    if used:
        context.metrics["drawn_for_used"] = drawn / used
    return kept.first_groups(wanted)


def _both_outcomes(batch: Batch) -> Batch:
    return batch.select(~batch.group_is_equal(batch.outcomes))
