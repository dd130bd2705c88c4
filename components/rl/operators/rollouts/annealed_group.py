"""EAD's rollout: a temperature that falls with the position, for diverse beginnings and stable endings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Self

from pydantic import Field, model_validator

from components.contract.errors import InputError
from components.rl.configs import SlotConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.modeling.generation.sampling import LogitsProcessor, Step
    from components.rl.batch.batch import Batch, Prompt
    from components.rl.step.collector import Collector


class AnnealedGroupConfig(SlotConfig):
    """The decay of the temperature; factors multiply the step's own temperature."""

    needs_processor: ClassVar[bool] = True
    start: float = Field(default=1.2, gt=0)
    """Factor at the first position."""
    floor: float = Field(default=0.1, gt=0)
    """Lowest factor."""
    decay_tokens: float = Field(default=500.0, gt=0)
    """Length scale of the decay at the first step, in tokens: after decay_tokens * log(start) the factor is 1."""
    growth_tokens: float = Field(default=100.0, ge=0)
    """Added to the length scale at every step, since responses grow in training."""
    decay_cap: float = Field(default=800_000.0, gt=0)
    """Largest length scale."""
    warmup_tokens: int = Field(default=10, ge=0)
    """First tokens of a response, drawn at factor 1: they set the format."""

    @model_validator(mode="after")
    def _falls(self) -> Self:
        if self.floor > self.start:
            raise InputError(f"annealed_group: floor {self.floor} is above start {self.start}")
        return self


def annealed_group(
    prompts: Sequence[Prompt], collector: Collector, context: SlotContext, *, config: AnnealedGroupConfig
) -> Batch:
    """Draw `group_size` responses to each prompt at a temperature that falls with the position.

    `old_logprobs` are those of the policy at the step's temperature, so ratios begin at 1; `behaviour_logprobs` are
    those of the annealed distribution, for advantage truncated_importance. Source: Yang et al. 2025, Let it Calm
    (arXiv:2510.05251), and its released code.
    """
    drawn = collector.draw(prompts, context.settings.group_size, processor=annealing(context.step, config))
    return collector.rescore(drawn)


def annealing(step: int, config: AnnealedGroupConfig) -> LogitsProcessor:
    """Return a processor that divides the logits of each position by its factor."""

    def process(logits: Tensor, place: Step) -> Tensor:
        return logits / temperature_factor(place.position, step, config)

    return process


def temperature_factor(position: int, step: int, config: AnnealedGroupConfig) -> float:
    """Return max(1 + start - exp(position / d), floor), d = min(decay_tokens + growth_tokens * step, decay_cap)."""
    if position < config.warmup_tokens:
        return 1.0
    scale = min(config.decay_tokens + config.growth_tokens * step, config.decay_cap)
    if position / scale > math.log1p(config.start):  # below 0 from here on, and soon more than a float can hold
        return config.floor
    return max(config.start - math.expm1(position / scale), config.floor)
