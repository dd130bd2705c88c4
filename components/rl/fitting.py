"""Prompts that are too long for the model with the response that follows: dropped, cut or refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from components.modeling.models.policy import Policy
from components.modeling.text.overlong import Limit, Teller, sort_overlong
from components.rl.batch.batch import Prompt

if TYPE_CHECKING:
    from components.rl.params import RLParams


def fitting_prompts(
    pool: Sequence[Prompt], policy: Policy, params: RLParams, teller: Teller
) -> tuple[list[Prompt], dict[str, float]]:
    """Return the prompts that fit the model with all their turns at full length, and how many do not.

    Of a conversation that is cut, what comes before the policy's first turn loses its beginning.
    """
    longest = max([params.max_new_tokens, *(phase.max_new_tokens or 0 for phase in params.phases)])
    limit = Limit.of_prompt(policy.max_positions, longest)
    further = [sum(len(gap) + 1 + longest for gap in prompt.gaps) for prompt in pool]
    sizes = [len(prompt.tokens) + more for prompt, more in zip(pool, further, strict=True)]
    sort = sort_overlong(
        sizes,
        limit,
        params.overlong,
        teller,
        names=lambda index: f"prompt {pool[index].item.id}",
        what="prompts",
        cuttable=lambda index: further[index] < limit.tokens,
    )
    fitting = [
        replace(pool[index], tokens=pool[index].tokens[sizes[index] - limit.tokens :])
        if index in sort.cut
        else pool[index]
        for index in sort.kept
    ]
    return fitting, sort.metrics()
