"""The four agents of a debate about a note: what is right, what is wrong, a verdict, and a second look."""

from __future__ import annotations

import random

from pydantic import Field

from components.contract.errors import InputError
from components.contract.params import Params
from components.tasks.answers import ANSWER_OPEN, extract_answer
from components.tasks.item import Item
from components.tasks.keywords import keyword_hits

WHOLE = "whole"
"""Name of the aspect that nothing is left over and that the note is not too long."""
WORDS = {True: "good", False: "bad"}


class NoteDebateConfig(Params):
    """How careful the agents are."""

    error_rate: float = Field(default=0.0, ge=0, le=1)
    """Probability that an agent sees one aspect of a note the other way round."""


def note_debate(item: Item, rng: random.Random, *, config: NoteDebateConfig) -> str:
    """Play the agent that the request of generator debated_pairs asks for, by the text of the others.

    Aspects of a note are its points (each is the next one that it names) and `whole`. support: `b7 whole`, those that
    are right. oppose: `k2`, those that are not. decide: `<answer>good` if support has all and oppose has none, else
    bad. revise: aspects that both or neither have are looked at again; the verdict stays where there is none.
    Source: Wei et al. 2025 (arXiv:2508.21476), whose agents are language models; a program in their place.
    """
    request, points, most, response = (item.data.get(key) for key in ("request", "points", "max_words", "response"))
    if not (isinstance(points, list) and points and isinstance(most, int) and isinstance(response, str)):
        raise InputError(f"demonstrator note_debate: item {item.id} has no note to debate (data.response, points)")
    right = _aspects(points, most, extract_answer(response))
    seen = {name: one != (rng.random() < config.error_rate) for name, one in right.items()}
    if request in ("support", "oppose"):
        return " ".join(name for name, one in seen.items() if one == (request == "support")) or "nothing"
    if request not in ("decide", "revise"):
        raise InputError(f"demonstrator note_debate: a debate has no part {request!r}; ask by generator debated_pairs")
    praised, blamed = (set(str(item.data.get(key, "")).split()) for key in ("support", "oppose"))
    if request == "decide":
        return f"{ANSWER_OPEN}{WORDS[praised >= set(right) and not blamed & set(right)]}"
    settled = {name: name in praised for name in right if (name in praised) != (name in blamed)}
    return f"{ANSWER_OPEN}{WORDS[all(settled.get(name, seen[name]) for name in right)]}"


def _aspects(points: list[str], most: int, text: str) -> dict[str, bool]:
    """Return which aspects of a note are right: all are, exactly where verifier notes finds it right."""
    left = keyword_hits(text, points)
    found = {}
    for point in points:
        found[point] = bool(left) and left[0] == point.casefold()
        left = left[1:] if found[point] else left
    return {**found, WHOLE: not left and len(text.split()) <= most}
