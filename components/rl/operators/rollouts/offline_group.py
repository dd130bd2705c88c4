"""A fixed set of responses of the starting policy, repeated in cycles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import Field

from components.rl.configs import SlotConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from components.rl.batch.batch import Batch, Prompt
    from components.rl.step.collector import Collector


class OfflineGroupConfig(SlotConfig):
    """The size of the set."""

    num_batches: int = Field(default=16, ge=1)
    """Batches in the set: the first batch repeats after this many steps."""


def offline_group(
    prompts: Sequence[Prompt], collector: Collector, context: SlotContext, *, config: OfflineGroupConfig
) -> Batch:
    """Return batch number (step mod num_batches) of the set, with the prompts and responses of its first use.

    Only prompt ids are stored: the frozen starting policy redraws the same responses from the same seed.
    `old_logprobs` are the trained policy's; the responses count as external.
    """
    import torch

    from components.tasks.seeds import derive_seed

    number = context.step % config.num_batches
    remembered: dict[str, list[str]] = context.memory.setdefault("prompts", {})
    known = remembered.setdefault(str(number), [prompt.item.id for prompt in prompts])
    by_id = {prompt.item.id: prompt for prompt in context.pool}
    batch = collector.draw(
        [by_id[name] for name in known],
        context.settings.group_size,
        policy=context.policies.start,
        generator=torch.Generator().manual_seed(derive_seed(context.seed, "offline_group", number)),
    )
    return collector.rescore(batch)
