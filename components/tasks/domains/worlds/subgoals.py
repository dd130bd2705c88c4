"""Programs that are written sub-goal by sub-goal: a machine of one number and a tape, and runs that it has to output.

A goal `4+7-3:2` is reached by `s8`, `o`, `i`, `o`: set the number, output it, increase it, output it. The first line of
a goal needs the value of its sum; every other line follows from the one before it. A line that begins with a thinking
mark is a comment. The interpreter is total: it ends after as many steps as there are lines.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import NamedTuple

THINK = "<think>"
SET = re.compile(r"s(-?\d{1,6})")
GOAL = re.compile(r"(\d(?:[+-]\d)*):(\d{1,2})")
TERM = re.compile(r"[+-]?\d")
MAX_LINES = 400


class NotExecutable(ValueError):
    """A line is none of the language, or there are too many."""


class Goal(NamedTuple):
    """A sum of digits, and how many numbers are output from its value on."""

    terms: tuple[int, ...]
    length: int

    def __str__(self) -> str:
        """Write it as in a prompt: `4+7-3:2`."""
        return f"{self.terms[0]}{''.join(f'{term:+d}' for term in self.terms[1:])}:{self.length}"

    @property
    def value(self) -> int:
        """Return the value of the sum."""
        return sum(self.terms)

    @property
    def tape(self) -> list[int]:
        """Return the numbers to be output."""
        return [self.value + step for step in range(self.length)]

    @property
    def lines(self) -> list[str]:
        """Return the program that reaches it."""
        return [f"s{self.value}", "o", *["i", "o"] * (self.length - 1)]

    @property
    def thought(self) -> str:
        """Return how the sum is worked out: `4+7=11 11-3=8`."""
        total, steps = self.terms[0], []
        for term in self.terms[1:]:
            steps.append(f"{total}{term:+d}={total + term}")
            total += term
        return " ".join(steps)


def draw_goal(rng: random.Random, num_terms: int, max_length: int) -> Goal:
    """Draw a goal; each term but the first has a sign."""
    terms = [rng.randint(0, 9), *(rng.choice((1, -1)) * rng.randint(1, 9) for _ in range(num_terms - 1))]
    return Goal(tuple(terms), rng.randint(1, max_length))


def read_goals(prompt: str) -> list[Goal]:
    """Return the goals of a prompt such as `4+7-3:2 5+2:1`; raise ValueError for another text."""
    goals = []
    for text in prompt.split(" "):
        found = GOAL.fullmatch(text)
        if found is None:
            raise ValueError(f"no goal: {text[:40]!r}")
        goals.append(Goal(tuple(int(term) for term in TERM.findall(found[1])), int(found[2])))
    return goals


def program_of(goals: Sequence[Goal]) -> tuple[list[str], list[bool]]:
    """Return the lines of a program for these goals, and which of them begin one."""
    lines = [line for goal in goals for line in goal.lines]
    begins = [at == 0 for goal in goals for at in range(len(goal.lines))]
    return lines, begins


def execute(program: str) -> list[int]:
    """Return what a program outputs; raise NotExecutable for a line that is none.

    Comments and blank lines are left out. What was never set is 0.
    """
    lines = program.split("\n")
    if len(lines) > MAX_LINES:
        raise NotExecutable(f"{len(lines)} lines")
    number, tape = 0, []
    for line in map(str.strip, lines):
        if not line or line.startswith(THINK):
            continue
        if line == "o":
            tape.append(number)
        elif line == "i":
            number += 1
        elif found := SET.fullmatch(line):
            number = int(found[1])
        else:
            raise NotExecutable(f"line {line[:40]!r}")
    return tape
