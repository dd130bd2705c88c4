"""Edits of a text of stack programs: whether every program then does what it should."""

from __future__ import annotations

from components.contract.params import Params
from components.tasks.answers import extract_answer
from components.tasks.domains.edits import MAX_CHARS, apply, parse, similarity, texts_of
from components.tasks.domains.stack import behaviour, is_program
from components.tasks.item import Item
from components.tasks.verify import RIGHT, Verdict, wrong

MAX_GRADE = 0.99
"""Highest score of an edit that is wrong."""
ARITY = 2


class PatchesVerifierConfig(Params):
    """No settings of its own."""


def patches(item: Item, response: str, *, config: PatchesVerifierConfig) -> Verdict:
    """Apply the edit to `data["text"]`, in memory, and run every line on all inputs.

    RIGHT if each program does what its line in `data["fixed"]` does, however it is written. Otherwise the score is the
    similarity of the diff to the reference's; 0 for an edit that does not parse, or whose lines are not in the text
    exactly once.
    Source: SWE-RL, whose reward is that similarity; tests decide here because the texts can be run.
    """
    text, fixed, style = texts_of(item)
    edits = parse(extract_answer(response), style)
    after = apply(text, edits) if edits else None
    if after is None:
        return wrong("no edit of the text" if edits is None else "the lines are not in the text exactly once", graded=0)
    if len(after) <= MAX_CHARS and _behaviours(after) == _behaviours(fixed):
        return RIGHT
    return wrong("some program does something else", graded=min(MAX_GRADE, similarity(text, after, fixed)))


def _behaviours(text: str) -> list[tuple[str, object]]:
    """Return each line's name with the behaviour of its program, or with the line where it is no program."""
    found: list[tuple[str, object]] = []
    for line in text.split("\n"):
        name, _, program = line.partition(" ")
        found.append((name, behaviour(program, ARITY) if is_program(program) else line))
    return found
