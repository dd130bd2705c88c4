"""Programs with thoughts among their lines, and thoughts at places: where they stand and what of is set."""

from __future__ import annotations

import random

from pydantic import Field

from components.contract.errors import InputError
from components.contract.params import Params
from components.tasks.domains.worlds.subgoals import THINK, Goal, program_of, read_goals
from components.tasks.item import Item

KEEP = "-"
"""What is written at a place where nothing is thought."""


class SubgoalProgramsTraceConfig(Params):
    """How often, where and of what is thought."""

    thoughts: float = Field(default=0.0, ge=0, le=1)
    """Probability of a thought before a line of a program, or at a place."""
    at_changes: float | None = Field(default=None, ge=0, le=1)
    """The same where a goal begins; null: as `thoughts`."""
    other_goal: float = Field(default=0.0, ge=0, le=1)
    """Probability that a thought is of a goal drawn by chance, and not of the one that the line belongs to."""


def subgoal_programs(item: Item, rng: random.Random, *, config: SubgoalProgramsTraceConfig) -> str:
    """Write a program with comments such as `<think>4+7=11 11-3=8`, or at a place the comment alone, or `-`."""
    is_place = "goals" in item.data
    try:
        goals = read_goals(str(item.data["goals"]) if is_place else item.prompt)
    except ValueError as error:
        message = f"demonstrator subgoal_programs: item {item.id} is not of source subgoal_programs ({error})"
        raise InputError(message) from error
    if is_place:
        at = item.data.get("goal")
        if not (type(at) is int and 0 <= at < len(goals)):
            raise InputError(
                f"demonstrator subgoal_programs: item {item.id}: data.goal {at!r:.40} is none of its goals"
            )
        return _thought(goals, at, bool(item.data.get("change")), rng, config) or KEEP
    lines, begins = program_of(goals)
    goal, written = -1, []
    for line, begin in zip(lines, begins, strict=True):
        goal += begin
        written += [thought] if (thought := _thought(goals, goal, begin, rng, config)) else []
        written.append(line)
    return "\n".join(written)


def _thought(
    goals: list[Goal], at: int, change: bool, rng: random.Random, config: SubgoalProgramsTraceConfig
) -> str | None:
    rate = config.at_changes if change and config.at_changes is not None else config.thoughts
    if rng.random() >= rate:
        return None
    chosen = rng.randrange(len(goals)) if rng.random() < config.other_goal else at
    return f"{THINK}{goals[chosen].thought}"
