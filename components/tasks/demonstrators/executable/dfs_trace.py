"""Depth-first searches with a set number of wrong branches, for two search tasks (backtracking-warmup)."""

from __future__ import annotations

import random
from typing import Literal

from pydantic import Field

from components.contract.errors import InputError
from components.contract.params import Params
from components.tasks.answers import ANSWER_OPEN
from components.tasks.demonstrators.chain_sum_trace import THINK_OPEN
from components.tasks.domains.countdown import read_game, right_leaf, wrong_leaves
from components.tasks.domains.latin import fits, read
from components.tasks.item import Item

BACK = "no"
"""Follows a wrong branch."""
Branches = list[list[str]]
"""The steps of each branch in order; all but those of the last lead nowhere."""


class DfsTraceConfig(Params):
    """How many wrong branches, and whether the steps make sense."""

    backtracks: int = Field(default=1, ge=0, le=100)
    """Wrong branches before the right one, exactly."""
    content: Literal["right", "shuffled"] = "right"
    """shuffled: the control of equal structure: the steps change places over the whole trace; the answer stays."""


def dfs_trace(item: Item, rng: random.Random, *, config: DfsTraceConfig) -> str:
    """Write a search of an item of source latin_squares or of reasoning-gym's countdown.

    Countdown: `<think>3+4=7 7+2=9 no 3*4=12 12+2=14<answer>3*4+2`. A square: `<think>12=3 no 12=2 33=1<answer>21`,
    where 12=3 puts 3 into row 1 and column 2; wrong numbers fit row and column where such are left.
    Source: backtracking-warmup; its sets have 0, 1, 3, 5 and 10 backtracks.
    """
    branches, answer = _square(item, rng, config) if "puzzle" in item.data else _game(item, rng, config)
    if config.content == "shuffled":
        steps = [step for branch in branches for step in branch]
        rng.shuffle(steps)
        places = iter(steps)
        branches = [[next(places) for _ in branch] for branch in branches]
    thought = f" {BACK} ".join(" ".join(branch) for branch in branches)
    return f"{THINK_OPEN}{thought}{ANSWER_OPEN}{answer}"


def _game(item: Item, rng: random.Random, config: DfsTraceConfig) -> tuple[Branches, str]:
    numbers, target = read_game(item, "dfs_trace")
    misses = wrong_leaves(numbers, target, config.backtracks, rng) if config.backtracks else []
    if len(misses) < config.backtracks:
        raise InputError(f"demonstrator dfs_trace: item {item.id} has fewer than {config.backtracks} wrong branches")
    last = right_leaf(item, numbers, target, rng)
    return [list(leaf.steps) for leaf in (*misses, last)], last.expression


def _square(item: Item, rng: random.Random, config: DfsTraceConfig) -> tuple[Branches, str]:
    found = read(str(item.data["puzzle"]))
    if found is None or not item.answer.isdecimal() or len(item.answer) != len(found[1]):
        raise InputError(f"demonstrator dfs_trace: item {item.id} is not of source latin_squares")
    square, holes = found
    numbers = [int(sign) for sign in item.answer]
    slips = [(at, number) for at in range(len(holes)) for number in range(1, len(square) + 1) if number != numbers[at]]
    if len(slips) < config.backtracks:
        raise InputError(f"demonstrator dfs_trace: item {item.id} has fewer than {config.backtracks} wrong branches")
    rng.shuffle(slips)
    slips.sort(key=lambda slip: not fits(square, holes[slip[0]], slip[1]))
    chosen = sorted(slips[: config.backtracks], key=lambda slip: slip[0])
    branches: Branches = [[]]
    for at, ((row, column), right) in enumerate(zip(holes, numbers, strict=True)):
        for number in [number for place, number in chosen if place == at]:
            branches[-1].append(f"{row + 1}{column + 1}={number}")
            branches.append([])
        branches[-1].append(f"{row + 1}{column + 1}={right}")
    return branches, item.answer
