"""Right, wrong, or not attempted: a refusal scores between the two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import AfterValidator, Field

from components.contract.errors import InputError
from components.contract.params import Params
from components.tasks.answers import extract_answer
from components.tasks.item import Item
from components.tasks.verifiers.exact import ExactConfig, exact, normalise
from components.tasks.verify import Verdict, wrong

REFUSALS = ("unknown", "i don't know", "i do not know")
TEXT = ExactConfig(punctuation=False)


def check_refusals(refusals: Sequence[str]) -> tuple[str, ...]:
    """Return the refusals; raise InputError for one that an empty answer would be equal to."""
    for text in refusals:
        if not normalise(text, TEXT):
            raise InputError(f"the refusal {text!r} has no letter and no digit, so that an empty answer would refuse")
    return tuple(refusals)


class FactualConfig(Params):
    """What counts as a refusal, and what it is worth."""

    refusals: Annotated[tuple[str, ...], AfterValidator(check_refusals)] = REFUSALS
    """Answers that say that the policy does not know; case and punctuation at their ends do not count."""
    refused: float = Field(default=2 / 3, ge=0, le=1)
    """Score of a refusal. 2/3 lies between wrong and right as KnowRL's 1 does between -1 and 2: refusing then pays
    where an answer would be right with a lower probability."""


def factual(item: Item, response: str, *, config: FactualConfig) -> Verdict:
    """Judge as verifier `exact` does; a refusal is WRONG with the score `refused`. An empty answer is wrong.

    Source: zjunlp/KnowRL, reward code (correct 2, refused 1, wrong -1).
    """
    verdict = exact(item, response, config=TEXT)
    if not verdict.right and is_refusal(response, config.refusals):
        return wrong("refused", graded=config.refused)
    return verdict


def is_refusal(response: str, refusals: Sequence[str]) -> bool:
    """Return whether a response's answer is one of the refusals."""
    return normalise(extract_answer(response), TEXT) in {normalise(text, TEXT) for text in refusals}
