"""All solutions of a puzzle by branches: one for each first choice, kept where it leads to solutions."""

from __future__ import annotations

import random

from pydantic import Field

from components.contract.errors import InputError
from components.contract.params import Params
from components.tasks.answers import ANSWER_OPEN
from components.tasks.demonstrators.chain_sum_trace import THINK_OPEN
from components.tasks.domains.puzzles import BETWEEN
from components.tasks.item import Item


class SolutionSetsDemonstratorConfig(Params):
    """How thorough the solver is."""

    miss: float = Field(default=0.0, ge=0, le=1)
    """Probability that a solution is overlooked; the answer lists those that were seen."""
    slip: float = Field(default=0.0, ge=0, le=1)
    """Probability that a solution gets a wrong digit."""
    think: bool = True
    """Whether the branches precede the answer."""


def solution_sets(item: Item, rng: random.Random, *, config: SolutionSetsDemonstratorConfig) -> str:
    """Write `<think>1: no 2:4135 3: no 4: no 5:3142<answer>24135,53142`: each first digit with what completes it."""
    solutions = item.data.get("solutions")
    if not (isinstance(solutions, list) and solutions and all(isinstance(one, str) and one for one in solutions)):
        raise InputError(f"demonstrator solution_sets: item {item.id} is not of source solution_sets")
    digits = sorted({digit for one in solutions for digit in one})
    seen = [one for one in solutions if rng.random() >= config.miss] or solutions[:1]
    written = [_slipped(one, digits, rng) if rng.random() < config.slip else one for one in seen]
    answer = f"{ANSWER_OPEN}{BETWEEN.join(written)}"
    if not config.think:
        return answer
    branches = []
    for first in sorted({*digits, *(one[0] for one in written)}):
        ends = [one[1:] for one in written if one[0] == first]
        branches.append(f"{first}:{BETWEEN.join(ends) or ' no'}")
    return f"{THINK_OPEN}{' '.join(branches)}{answer}"


def _slipped(solution: str, digits: list[str], rng: random.Random) -> str:
    place = rng.randrange(len(solution))
    return solution[:place] + rng.choice(digits) + solution[place + 1 :]
