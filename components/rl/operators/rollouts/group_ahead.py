"""A group of independent samples for every prompt, drawn some steps before it is learned from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from components.rl.configs import SlotConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from components.rl.batch.batch import Batch, Prompt
    from components.rl.step.collector import Collector


class GroupAheadConfig(SlotConfig):
    """The staleness of the weights that draw."""

    draws_ahead: ClassVar[bool] = True
    max_staleness: int = Field(default=1, ge=1, le=8)
    """Maximum steps between the weights that draw a batch and the weights that learn from it. The first batches of a
    phase are younger; from step `max_staleness` on all have exactly this age."""


def group_ahead(
    prompts: Sequence[Prompt], collector: Collector, context: SlotContext, *, config: GroupAheadConfig
) -> Batch:
    """Begin to draw `group_size` responses to each prompt, and return those begun `max_staleness` steps ago.

    An engine draws while the trainer trains; the native sampler draws at once, with the same staleness. The first
    prompts of a phase are drawn once more for each step of staleness, to fill the queue until the first batch is due;
    no draw outlives its phase. `old_logprobs` are those of the weights that learn, `behaviour_logprobs` of the weights
    that drew: advantage truncated_importance corrects for the difference. A second call in one step draws with the
    current weights. Source: Noukhovitch et al. 2024, Asynchronous RLHF (arXiv:2410.18252), one-step off-policy.
    """
    return collector.draw_ahead(prompts, context.settings.group_size, config.max_staleness)
