"""DSDR's coupling: which right responses get how much of the local entropy term."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from components.rl.exploration.right_responses import DistinctnessConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from components.rl.batch.batch import Batch


class DiversityCouplingConfig(DistinctnessConfig):
    """What responses are compared by, and how sharply the distinct ones are preferred."""

    writes: ClassVar[frozenset[str]] = frozenset({"coupling_s"})
    temperature: float = Field(default=0.1, gt=0)
    """tau of the softmax over distinctness; large values weigh all right responses alike."""


def diversity_coupling(batch: Batch, context: SlotContext, *, config: DiversityCouplingConfig) -> Batch:
    """Mark `coupling_s`: G softmax(d / temperature) over the right responses of a group of G; 0 for all others.

    So the mean over a group of coupling * H is the softmax-weighted mean of H over its right responses. Groups with
    fewer than two right responses have 0. d as in reward correct_diversity.
    Source: Wan et al. 2026, DSDR (arXiv:2602.19895): softmax of distinctness over right responses. RECONSTRUCTED: tau.
    """
    import torch

    from components.rl.exploration.right_responses import right_distinctness

    tilted_s = (right_distinctness(batch, context, config) / config.temperature).nan_to_num(-torch.inf)
    empty = tilted_s.new_full((batch.num_prompts,), -torch.inf)
    most_s = empty.scatter_reduce(0, batch.group, tilted_s, "amax")[batch.group].nan_to_num(neginf=0.0)
    shares_s = (tilted_s - most_s).exp()
    total_s = batch.group_sum(shares_s)
    coupling_s = batch.group_sizes * shares_s / total_s.masked_fill(total_s == 0, 1.0)
    return batch.with_extras(coupling_s=coupling_s.float())
