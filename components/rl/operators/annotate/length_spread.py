"""How much the lengths of a group differ: what a method that acts on length has to choose from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from components.rl.configs import SlotConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from components.rl.batch.batch import Batch


class LengthSpreadConfig(SlotConfig):
    """No settings."""


def length_spread(batch: Batch, context: SlotContext, *, config: LengthSpreadConfig) -> Batch:
    """Return the batch as it is, and report how the lengths of its groups spread.

    Metrics: `length_spread`, the mean over groups of the lengths' coefficient of variation (population deviation over
    mean), and `length_spread_right`, the same among the right responses of groups that have two or more of them.
    """
    from components.rl.batch.batch import RIGHT

    found = {
        "length_spread": _spread(batch),
        "length_spread_right": _spread(batch.select(batch.outcomes == RIGHT), at_least=2),
    }
    context.metrics.update({name: value for name, value in found.items() if value is not None})
    return batch


def _spread(batch: Batch, at_least: int = 1) -> float | None:
    """Return the mean coefficient of variation over groups of so many trajectories; None without such a group."""
    import torch

    group_t, length_t = batch.of_traces(batch.group), batch.of_traces(batch.response_lengths).double()
    size_p = torch.bincount(group_t, minlength=batch.num_prompts).double()
    mean_p = torch.zeros(batch.num_prompts, dtype=torch.float64).index_add(0, group_t, length_t) / size_p
    gap_t = (length_t - mean_p[group_t]).square()
    spread_p = (torch.zeros_like(mean_p).index_add(0, group_t, gap_t) / size_p).sqrt() / mean_p
    counted = spread_p[size_p >= at_least]
    return float(counted.mean()) if len(counted) else None
