"""All solutions of a puzzle, in any order."""

from __future__ import annotations

from typing import Literal

from components.contract.params import Params
from components.tasks.answers import extract_answer
from components.tasks.domains.puzzles import BETWEEN
from components.tasks.item import Item
from components.tasks.verify import RIGHT, BrokenItem, Verdict, wrong

MAX_CHARS = 2_000


class SolutionSetsVerifierConfig(Params):
    """What is asked for."""

    accept: Literal["all", "any"] = "all"
    """all: the set of all solutions. any: at least one and nothing else, as a reward for single solutions has it."""


def solution_sets(item: Item, response: str, *, config: SolutionSetsVerifierConfig) -> Verdict:
    """Compare the answer's set with `data["solutions"]`; the score is all or nothing, as ToTRL's reward.

    Spaces do not count, and a solution written twice counts once; a part that is no number makes the answer WRONG.
    """
    solutions = item.data.get("solutions")
    if not (isinstance(solutions, list) and solutions and all(isinstance(one, str) for one in solutions)):
        raise BrokenItem(f"data.solutions is no list of texts: {solutions!r:.80}")
    text = extract_answer(response)
    given = [part.strip() for part in text[:MAX_CHARS].split(BETWEEN)]
    if len(text) > MAX_CHARS or not all(part.isascii() and part.isdecimal() for part in given):
        return wrong(f"no list of solutions: {text[:60]!r}")
    found, known = set(given), set(solutions)
    if found == known or (config.accept == "any" and found <= known):
        return RIGHT
    return wrong(f"{len(found & known)} of {len(known)} solutions, {len(found - known)} that are none")
