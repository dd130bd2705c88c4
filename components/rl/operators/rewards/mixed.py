"""Another reward for each kind of item."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, field_validator

from components.contract.errors import InputError
from components.contract.operators import OperatorSpec
from components.rl.configs import RewardConfig
from components.rl.slots import REWARD
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class MixedConfig(RewardConfig):
    """Which reward each domain has."""

    by: dict[str, Annotated[OperatorSpec, REWARD]] = Field(min_length=1)
    """Domain -> its reward."""
    default: Annotated[OperatorSpec, REWARD] | None = None
    """The reward of all other domains; without it they are an error."""

    @field_validator("by", "default")
    @classmethod
    def _known(cls, given: Any) -> Any:
        for spec in given.values() if isinstance(given, dict) else [given] if given else []:
            spec.resolve()
        return given


def mixed(batch: Batch, context: SlotContext, *, config: MixedConfig) -> Tensor:
    """Return [S]: for each response the reward of its item's domain, times that reward's own weight.

    A reward sees the responses of its domain alone. Rewards of tokens count by their sum.
    """
    import torch

    from components.rl.batch.nested import nested_reward

    domains = [batch.prompts[group].item.domain for group in batch.group.tolist()]
    found = torch.zeros(batch.num_responses)
    for domain in dict.fromkeys(domains):
        spec = config.by.get(domain, config.default)
        if spec is None:
            raise InputError(f"reward mixed: domain {domain!r} has no reward; give it one in `by`, or a `default`")
        rows = torch.tensor([own == domain for own in domains])
        memory = context.memory.setdefault(domain, {})
        found[rows] = nested_reward(spec, batch.select(rows), replace(context, memory=memory))
    return found
