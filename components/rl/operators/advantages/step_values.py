"""An advantage for every step: the change in the probability of a right outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING

from components.rl.configs import AdvantageConfig
from components.rl.step.context import SlotContext
from components.rl.step.steps import StepsConfig, value_steps

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class StepValuesConfig(StepsConfig, AdvantageConfig):
    """Step separator and number of completions."""


def step_values(batch: Batch, context: SlotContext, *, config: StepValuesConfig) -> Tensor:
    """Return [N]: Q_i - Q_(i-1) at the tokens of step i, with Q_i the share of right completions after step i.

    The steps of a response sum to its outcome minus the pass rate of its group. Source: Setlur et al. 2024, RL on
    Incorrect Synthetic Data (arXiv:2406.14532), section 4: per-step preference is equivalent to these advantages.
    """
    import torch

    valued, _ = value_steps(batch, range(batch.num_responses), context.collector, config)
    found = torch.zeros(batch.num_tokens)
    starts = (batch.lengths.cumsum(0) - batch.lengths).tolist()
    for measured in valued:
        begin = 0
        for end, value in zip(measured.ends, measured.advantages, strict=True):
            found[starts[measured.row] + begin : starts[measured.row] + end] = value
            begin = end
    return found.nan_to_num(0.0)
