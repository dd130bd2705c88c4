"""Learners' tries, and absolute learning progress: the change of reward since the nearest earlier task."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from components.rl.curricula.task_space import Point, TaskSpace
    from components.rl.step.context import SlotContext
    from components.rl.step.ledger import Visit

FIRST = 6
"""Tasks before this index have progress 0: too few to compare with (released code of ALP-GMM)."""


@dataclass(frozen=True)
class Try:
    """One task tried by a learner."""

    step: int
    prompt_id: str
    point: Point
    reward: float
    """Share of right responses among the verified ones."""


def tries_of(visits: Iterable[Visit], space: TaskSpace) -> list[Try]:
    """Return the learned visits as tries, in order, without prompts outside the space."""
    return [
        Try(visit.step, visit.prompt_id, space.point_of[visit.prompt_id], visit.pass_rate)
        for visit in visits
        if visit.mean_abs_advantage is not None and visit.pass_rate is not None and visit.prompt_id in space.point_of
    ]


def own_tries(context: SlotContext, space: TaskSpace) -> list[Try]:
    """Return the tries of this stage's learner in finished steps."""
    return tries_of((visit for visit in context.ledger.visits(since_step=0) if visit.step < context.step), space)


def absolute_progress(tries: Sequence[Try], *, since: int = 0) -> list[float]:
    """Return |reward - reward of the nearest earlier task| for each try from index `since` on.

    Among earlier tasks at the same distance the latest counts. Source: Portelas et al. 2019, Teacher algorithms for
    curriculum learning of Deep RL in continuously parameterized environments (arXiv:1910.07224), section 4.
    """
    found = []
    for index in range(since, len(tries)):
        if index < FIRST:
            found.append(0.0)
            continue
        here = tries[index]
        nearest = min(reversed(tries[:index]), key=lambda earlier: math.dist(earlier.point, here.point))
        found.append(abs(here.reward - nearest.reward))
    return found
