"""Searches for items of reasoning-gym's countdown: some tries that miss, then one that hits (RLSP)."""

from __future__ import annotations

import random

from pydantic import Field

from components.contract.params import Params
from components.tasks.answers import ANSWER_OPEN
from components.tasks.demonstrators.chain_sum_trace import THINK_OPEN
from components.tasks.demonstrators.executable.dfs_trace import BACK
from components.tasks.domains.countdown import read_game, right_leaf, wrong_leaves
from components.tasks.item import Item


class CountdownSearchConfig(Params):
    """How long is searched, and how it ends."""

    max_misses: int = Field(default=2, ge=0, le=50)
    """Most tries that miss, drawn evenly from 0 on; fewer where there are no more ways."""
    give_up: float = Field(default=0.0, ge=0, le=1)
    """Probability that the search ends without a hit: the answer is then the last try, which is wrong."""
    think: bool = True
    """Whether the search precedes the answer."""


def countdown_search(item: Item, rng: random.Random, *, config: CountdownSearchConfig) -> str:
    """Write `<think>3+4=7 7+2=9 no 3*4=12 12+2=14<answer>3*4+2`: each try is the steps down to one number."""
    numbers, target = read_game(item, "countdown_search")
    tries = wrong_leaves(numbers, target, rng.randint(0, config.max_misses), rng)
    last = right_leaf(item, numbers, target, rng)
    if rng.random() < config.give_up:
        last = next(iter(wrong_leaves(numbers, target, 1, rng)), last)
    if not config.think:
        return f"{ANSWER_OPEN}{last.expression}"
    thought = f" {BACK} ".join(" ".join(leaf.steps) for leaf in (*tries, last))
    return f"{THINK_OPEN}{thought}{ANSWER_OPEN}{last.expression}"
