"""DRIVE's sampler: a set of prompts that shrinks to those that stay hardest."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from components.rl.configs import SlotConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from components.rl.batch.batch import Prompt


class ShrinkToHardestConfig(SlotConfig):
    """How often the set shrinks, by how much, and how prompts are measured."""

    reads: ClassVar[frozenset[str]] = frozenset({"outcomes"})
    every: int = Field(default=10, ge=1)
    """Steps between two measurements; the first precedes the first step."""
    keep: float = Field(default=0.5, gt=0, le=1)
    """Share of the set that each measurement keeps, rounded up: those of lowest pass rate."""
    least: int = Field(default=16, ge=1)
    """Prompts below which the set does not shrink."""
    num_samples: int = Field(default=8, ge=1)
    """Responses used to measure a prompt."""


def shrink_to_hardest(
    pool: Sequence[Prompt], count: int, context: SlotContext, *, config: ShrinkToHardestConfig
) -> list[int]:
    """Return `count` indices, drawn in shuffled rounds from the set that the last measurement kept.

    Equally hard prompts keep the order of the pool; a prompt whose verifications all failed is the first to go.
    Metrics, at measurements: `kept_prompts`, and their mean pass rate, `kept_pass_rate`.

    Source: Zhu et al. 2025, DRIVE (arXiv:2511.06307), stage 2: after each part of the training the hardest instances
    are kept. The share, the floor and the number of samples are ours.
    """
    memory = context.memory
    calls: int = memory.setdefault("calls", 0)
    if calls % config.every == 0:
        kept = memory.get("kept", list(range(len(pool))))
        memory.update(kept=_hardest(kept, pool, context, config), drawn=0)
    memory["calls"] = calls + 1
    drawn: int = memory["drawn"]
    memory["drawn"] = drawn + count
    picked: list[int] = []
    while len(picked) < count:
        walk, offset = divmod(drawn + len(picked), len(memory["kept"]))
        order = list(memory["kept"])
        random.Random(f"{context.seed}/shrink_to_hardest/{calls // config.every}/{walk}").shuffle(order)
        picked += order[offset : offset + count - len(picked)]
    return picked


def _hardest(
    indices: Sequence[int], pool: Sequence[Prompt], context: SlotContext, config: ShrinkToHardestConfig
) -> list[int]:
    """Return the indices of lowest pass rate under the current policy, in the order of the pool."""
    rates = context.collector.probe([pool[index] for index in indices], config.num_samples).tolist()
    number = min(len(indices), max(config.least, math.ceil(config.keep * len(indices))))
    ranked = sorted(zip(rates, indices, strict=True), key=lambda pair: (math.isnan(pair[0]), pair[0]))[:number]
    known = [rate for rate, _ in ranked if not math.isnan(rate)]
    context.metrics["kept_prompts"] = float(number)
    if known:
        context.metrics["kept_pass_rate"] = math.fsum(known) / len(known)
    return sorted(index for _, index in ranked)
