"""Groups whose size depends on the task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic import Field, field_validator

from components.contract.errors import InputError
from components.rl.configs import SlotConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from components.rl.batch.batch import Batch, Prompt
    from components.rl.step.collector import Collector


class GroupByDomainConfig(SlotConfig):
    """How many responses a prompt gets."""

    sizes: dict[str, int] = Field(min_length=1)
    """Domain -> responses to each of its prompts, at most the stage's `group_size`, which all other domains get."""

    @field_validator("sizes")
    @classmethod
    def _positive(cls, given: Any) -> Any:
        for domain, size in given.items():
            if size < 1:
                raise ValueError(f"domain {domain!r} would get {size} responses to a prompt; give it 1 or more")
        return given


def group_by_domain(
    prompts: Sequence[Prompt], collector: Collector, context: SlotContext, *, config: GroupByDomainConfig
) -> Batch:
    """Draw each prompt's responses, so many as its domain gets, in the order of the prompts.

    Source: Xu et al. 2024, The Perfect Blend (CGPO, arXiv:2409.20370), multi-task CGPO: K is a setting of each task,
    larger where judges are precise and exploration pays.
    """
    import torch

    from components.rl.batch.joining import concatenate

    most = context.settings.group_size
    for domain, size in config.sizes.items():
        if size > most:
            raise InputError(
                f"rollout group_by_domain: domain {domain!r} would get {size} responses to a prompt, and group_size, "
                f"the most of any, is {most}"
            )
    places: dict[int, list[int]] = {}
    for place, prompt in enumerate(prompts):
        places.setdefault(config.sizes.get(prompt.item.domain, most), []).append(place)
    sizes = sorted(places)
    drawn = concatenate([collector.draw([prompts[place] for place in places[size]], size) for size in sizes])
    place_of = torch.tensor([place for size in sizes for place in places[size]])
    return drawn.select(torch.argsort(place_of[drawn.group], stable=True))
