"""Prompts of earlier skills among the new ones, at a fixed share."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import Field

from components.contract.errors import UnknownName
from components.rl.configs import SlotConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from components.rl.batch.batch import Prompt


class ReplayMixtureConfig(SlotConfig):
    """The replayed domains and their share."""

    replay_domains: tuple[str, ...] = ()
    """Domains of the skills to keep; none: all prompts are treated alike."""
    replay_share: float = Field(default=0.3, gt=0, lt=1)
    """Share of their prompts among all draws."""


def replay_mixture(
    pool: Sequence[Prompt], count: int, context: SlotContext, *, config: ReplayMixtureConfig
) -> list[int]:
    """Return the next `count` indices: after any number of draws each part has its share to within one prompt.

    Each part has its own shuffled epochs. The memory holds the number drawn from each.

    Source: Phan et al. 2025, Beyond Reasoning Gains (RECAP, arXiv:2510.21978), replay of general prompts in RLVR.
    """
    domains = {prompt.item.domain for prompt in pool}
    for domain in config.replay_domains:
        if domain not in domains:
            raise UnknownName("replay domain", domain, domains)
    parts = {"replay": [i for i, prompt in enumerate(pool) if prompt.item.domain in config.replay_domains]}
    parts["new"] = [i for i, prompt in enumerate(pool) if prompt.item.domain not in config.replay_domains]
    shares = {"replay": config.replay_share, "new": 1.0 - config.replay_share}
    shares = {name: share for name, share in shares.items() if parts[name]}
    drawn: dict[str, int] = context.memory.setdefault("drawn", {})
    picked = []
    for _ in range(count):
        total = sum(drawn.values()) + 1
        part = max(shares, key=lambda name: shares[name] * total - drawn.get(name, 0))
        picked.append(_member(parts[part], drawn.get(part, 0), f"{context.seed}/replay_mixture/{part}"))
        drawn[part] = drawn.get(part, 0) + 1
    return picked


def _member(members: Sequence[int], number: int, stream: str) -> int:
    """Return member `number` of an endless sequence of shuffled epochs."""
    epoch, place = divmod(number, len(members))
    order = list(members)
    random.Random(f"{stream}/{epoch}").shuffle(order)
    return order[place]
