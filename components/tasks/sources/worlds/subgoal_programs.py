"""Programs of hidden sub-goals: whole ones to be written, and places between their lines where a thought may stand.

`4+7-3:2 5+2:1` asks for two runs of numbers, and its program sets, outputs and increases one number line by line. The
lines do not say where a goal begins; who knows it knows where thinking helps. Source: Zhang et al. 2025 (RA3), expert
text whose lines follow from latent abstractions that persist over several of them.
"""

from __future__ import annotations

import random
from typing import Literal, Self

from pydantic import Field, model_validator

from components.tasks.domains.made import Made, MadeConfig, made_rows
from components.tasks.domains.worlds.subgoals import Goal, draw_goal, program_of
from components.tasks.source import SourceRequest, SourceRows

VERIFIER, PLACES = "tape", "exact"


class SubgoalProgramsConfig(MadeConfig):
    """How many goals a program has, how hard they are, and what a row asks for."""

    min_goals: int = Field(default=2, ge=1)
    """Fewest goals of a program."""
    max_goals: int = Field(default=2, ge=1, le=12)
    """Most goals of a program."""
    terms: int = Field(default=3, ge=1, le=9)
    """Terms of a goal's sum: the knob of difficulty."""
    max_length: int = Field(default=3, ge=1, le=20)
    """Most numbers that a goal outputs."""
    task: Literal["program", "place"] = "program"
    """program: the whole program. place: what follows the first lines of one, up to a line drawn by chance."""
    ask: str = "\n?"
    """What stands behind the lines of a place; without it the prompt would be plain text that goes on."""
    ahead: int = Field(default=1, ge=1)
    """Lines that follow a place, `data["next"]`."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        self.check_order("subgoal_programs", ("min_goals", "max_goals"))
        return self

    def verifiers(self) -> tuple[str, ...]:
        """Return the verifier of all rows."""
        return (VERIFIER if self.task == "program" else PLACES,)


def subgoal_programs(request: SourceRequest, *, config: SubgoalProgramsConfig) -> SourceRows:
    """Draw programs without end, split by their goals; whole ones and places of one part are of the same programs.

    A program's `data["tape"]` holds what it outputs. A place's `data` has the text `before` it, the `next` lines, the
    `goals`, and `change`: whether the next line begins a goal, for measures alone.
    """

    def draw(rng: random.Random) -> Made:
        goals = [
            draw_goal(rng, config.terms, config.max_length)
            for _ in range(rng.randint(config.min_goals, config.max_goals))
        ]
        asked = " ".join(map(str, goals))
        return _program(asked, goals) if config.task == "program" else _place(asked, goals, rng, config)

    verifier = VERIFIER if config.task == "program" else PLACES
    return made_rows("subgoal_programs", request, config, verifier, draw)


def _program(asked: str, goals: list[Goal]) -> Made:
    lines, _ = program_of(goals)
    return Made(asked, asked, "\n".join(lines), {"tape": [number for goal in goals for number in goal.tape]})


def _place(asked: str, goals: list[Goal], rng: random.Random, config: SubgoalProgramsConfig) -> Made:
    lines, begins = program_of(goals)
    at = rng.randrange(len(lines))
    before, behind = "\n".join([asked, *lines[:at]]), "\n".join(lines[at : at + config.ahead])
    data = {"before": before, "next": behind, "goals": asked, "change": begins[at], "goal": sum(begins[: at + 1]) - 1}
    return Made(asked, f"{before}{config.ask}", behind, data)
