"""An advantage for every step: what it changed in the chance of ending right."""

from __future__ import annotations

from typing import TYPE_CHECKING

from components.rl.configs import AdvantageConfig
from components.rl.step.context import SlotContext
from components.rl.step.steps import StepsConfig, value_steps

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class StepValuesConfig(StepsConfig, AdvantageConfig):
    """As for all that is measured step by step."""


def step_values(batch: Batch, context: SlotContext, *, config: StepValuesConfig) -> Tensor:
    """Return [N]: Q_i - Q_(i-1) at the tokens of step i, Q_i the share of completions behind it that end right.

    The steps of a response add up to its outcome minus the pass rate of its group. Source: Setlur et al. 2024, RL on
    Incorrect Synthetic Data (arXiv:2406.14532), section 4: the advantages to which per-step preference is equivalent.
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
