"""Gains of recent steps by category of prompts: the rewards of the bandit samplers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from components.rl.batch.batch import Prompt
    from components.rl.step.context import SlotContext


class Gain(NamedTuple):
    """One prompt at one step."""

    category: str
    num_responses: int
    """Verified responses only."""
    mean_abs_advantage: float
    """0 if nothing was learned from the prompt: a group without signal, whether filtered or not."""


def new_gains(
    categories: Mapping[str, Sequence[int]], pool: Sequence[Prompt], context: SlotContext
) -> list[list[Gain]]:
    """Return the gains of each step that ended since the last call, oldest step first; every gain is returned once.

    `context.memory["next_step"]` is the first step not yet returned. Prompts outside the pool do not count.
    """
    next_step: int = context.memory.get("next_step", 0)
    context.memory["next_step"] = context.step
    category_of = {pool[index].item.id: name for name, indices in categories.items() for index in indices}
    by_step: dict[int, list[Gain]] = {}
    for visit in context.ledger.visits(since_step=next_step):
        verified = visit.num_right + visit.num_wrong
        if visit.step < context.step and visit.prompt_id in category_of and verified:
            gain = Gain(category_of[visit.prompt_id], verified, visit.mean_abs_advantage or 0.0)
            by_step.setdefault(visit.step, []).append(gain)
    return [by_step[step] for step in sorted(by_step)]
