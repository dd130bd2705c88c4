"""A group of independent samples for every prompt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from components.rl.configs import NoConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from components.rl.batch.batch import Batch, Prompt
    from components.rl.step.collector import Collector


def group(prompts: Sequence[Prompt], collector: Collector, context: SlotContext, *, config: NoConfig) -> Batch:
    """Draw the stage's `group_size` responses to each prompt at its `temperature`."""
    return collector.draw(prompts, context.settings.group_size)
