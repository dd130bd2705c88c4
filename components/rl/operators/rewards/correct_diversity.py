"""DSDR's global term: of several right responses, the distinct ones are worth more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from components.rl.configs import RewardConfig
from components.rl.exploration.right_responses import DistinctnessConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class CorrectDiversityConfig(DistinctnessConfig, RewardConfig):
    """What responses are compared by, and the bound; `weight` is lambda_g."""

    bound: float = Field(default=1.0, gt=0, le=1)
    """d_max: the largest distinctness that is rewarded."""


def correct_diversity(batch: Batch, context: SlotContext, *, config: CorrectDiversityConfig) -> Tensor:
    """Return [S]: min(d, bound) of a right response among the right ones of its group; 0 for every other response.

    d, between 0 and 1, is how distinct it is; groups with one right response get none. Added to an outcome reward, a
    right response stays above every wrong one, and groups that are all right keep a signal.
    Metric `right_distinctness`: the mean of d.
    Source: Wan et al. 2026, DSDR (arXiv:2602.19895): a bounded bonus for right responses alone. RECONSTRUCTED: d.
    """
    from components.rl.exploration.right_responses import right_distinctness

    distinct_s = right_distinctness(batch, context, config)
    if bool(distinct_s.isfinite().any()):
        context.metrics["right_distinctness"] = float(distinct_s.nanmean())
    return distinct_s.nan_to_num(0.0).clamp(max=config.bound).float()
