"""A reward whose weight changes from step to step."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, field_validator

from components.contract.operators import OperatorSpec
from components.rl.configs import RewardConfig
from components.rl.slots import REWARD
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class FadeConfig(RewardConfig):
    """The reward, and its factor from the first step to the last."""

    reward: Annotated[OperatorSpec, REWARD]
    """The reward that fades, with its own settings."""
    first: float = 1.0
    """Factor at step 0."""
    last: float = 0.0
    """Factor at the end and after it."""
    steps: int | None = Field(default=None, ge=1)
    """Steps from `first` to `last`; none: to the stage's last step."""
    shape: Literal["linear", "cosine"] = "linear"
    """How the factor moves between them."""

    @field_validator("reward")
    @classmethod
    def _known(cls, spec: OperatorSpec) -> OperatorSpec:
        spec.resolve()
        return spec


def fade(batch: Batch, context: SlotContext, *, config: FadeConfig) -> Tensor:
    """Return [S]: the reward times a factor that moves from `first` to `last`. Metric: `fade_factor`."""
    from components.rl.batch.nested import nested_reward

    factor = factor_at(context.step, config, context.num_steps)
    context.metrics["fade_factor"] = factor
    return factor * nested_reward(config.reward, batch, context)


def factor_at(step: int, config: FadeConfig, num_steps: int) -> float:
    """Return the factor at a step, counted from 0."""
    length = max(1, num_steps - 1 if config.steps is None else config.steps)
    done = min(1.0, step / length)
    share = done if config.shape == "linear" else (1 - math.cos(math.pi * done)) / 2
    return config.first + (config.last - config.first) * share
