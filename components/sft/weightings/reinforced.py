"""Weights that an LSTM learns by REINFORCE from what each source task does for the target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import Field

from components.contract.params import Params

if TYPE_CHECKING:
    from components.sft.weighting import Weighting


class ReinforcedConfig(Params):
    """The policy that weighs tasks, and how it learns."""

    hidden: int = Field(default=32, ge=1)
    """Units of the LSTM."""
    learning_rate: float = Field(default=0.01, gt=0)
    """Adam's, of the policy."""
    draws: int = Field(default=16, ge=1)
    """Choices of a task that are drawn from the weights in each step, and rewarded."""
    decay: float = Field(default=0.9, ge=0, lt=1)
    """Decay of the moving averages of rewards (the baseline) and of their squares (the scale)."""
    entropy: float = Field(default=0.4, ge=0)
    """Coefficient of the weights' entropy, which keeps a task that is of no use yet from being given up for good."""


def reinforced(tasks: Sequence[str], seed: int, *, config: ReinforcedConfig) -> Weighting:
    """Return the weighting that learns which tasks help, after Fu et al. 2024 (Meta-RTL).

    An LSTM over steps, rewarded by the fall of the target's loss, is the paper's; its input, baseline, scale and
    entropy are reconstructed. The choice of a task is drawn, though the model follows all of them by weight.
    """
    from components.sft.reinforced_weights import Reinforced

    return Reinforced(len(tasks), seed, **config.model_dump())
