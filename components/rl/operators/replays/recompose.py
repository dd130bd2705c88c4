"""RoRecomp: short right and long wrong responses are learned from at once, the rest later and ever less often."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import Field

from components.rl.configs import SlotConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class RecomposeConfig(SlotConfig):
    """The size of the priority batch, and how often a compensation batch follows."""

    share: float = Field(default=0.5, gt=0, le=1)
    """rho: share of the right responses (the shortest) and of the wrong ones (the longest) in the priority batch."""
    first_probability: float = Field(default=1.0, ge=0, le=1)
    """Probability of a compensation batch, once the buffer holds one, at the first step."""
    last_probability: float = Field(default=0.2, ge=0, le=1)
    """The same at the last step, with half a cosine in between."""


def recompose(batch: Batch, context: SlotContext, *, config: RecomposeConfig) -> Sequence[Batch]:
    """Return the priority batch, followed by the compensation batch when one is due.

    Advantages are computed over whole groups before. The rest joins the buffer with its old log-probabilities. Once
    the buffer holds as many responses as a step, it becomes a compensation batch, with the probability of the step,
    and is emptied; otherwise only that many of the newest responses stay.

    Source: Li et al. 2025, RoRecomp (arXiv:2509.25958), priority and compensation batches. Reconstructed: `share`, the
    shape and ends of the decay, and the size at which the buffer holds a batch.
    """
    from components.rl.batch.as_json import batch_from_json, batch_to_json
    from components.rl.batch.joining import concatenate

    chosen = priority(batch, config.share)
    saved = context.memory.pop("buffer", None)
    rest = batch.select(~chosen)
    buffer = rest if saved is None else concatenate([batch_from_json(saved, context.pool), rest])
    batches = [batch.select(chosen)]
    if 0 < batch.num_traces <= buffer.num_traces:
        if random.Random(f"{context.seed}/recompose/{context.step}").random() < probability(context, config):
            batches.append(buffer)
            buffer = buffer.first_groups(0)
        else:
            buffer = _newest(buffer, batch.num_traces)
    if buffer.num_responses:
        context.memory["buffer"] = batch_to_json(buffer)
    return batches


def priority(batch: Batch, share: float) -> Tensor:
    """Return [S] bool: the shortest `share` of the right and the longest of the wrong responses, ties by row."""
    import torch

    from components.rl.batch.batch import RIGHT, WRONG

    chosen = torch.zeros(batch.num_traces, dtype=torch.bool)
    lengths_t, outcomes_t = batch.of_traces(batch.response_lengths), batch.of_traces(batch.outcomes)
    for outcome, sign in ((RIGHT, 1), (WRONG, -1)):
        traces = (outcomes_t == outcome).nonzero().squeeze(1)
        order = torch.argsort(sign * lengths_t[traces], stable=True)
        chosen[traces[order[: round(share * len(traces))]]] = True
    return batch.to_rows(chosen)


def probability(context: SlotContext, config: RecomposeConfig) -> float:
    """Return p_comp of the step."""
    progress = context.step / max(1, context.num_steps - 1)
    fall = (1 + math.cos(math.pi * progress)) / 2
    return config.last_probability + (config.first_probability - config.last_probability) * fall


def _newest(batch: Batch, count: int) -> Batch:
    return batch.select(batch.trace >= batch.num_traces - count)
