"""Judgements of answers to sums of fractions: both as reduced fractions, and whether they are equal."""

from __future__ import annotations

import random

from pydantic import Field

from components.contract.errors import InputError
from components.contract.params import Params
from components.tasks.answers import extract_answer
from components.tasks.item import Item
from components.tasks.verifiers.numeric import parse_number

MOST_CHARS = 20
"""Of a reduced fraction that a thought shows: an answer may be of any length."""


class FormJudgementConfig(Params):
    """How careful the judge is."""

    error_rate: float = Field(default=0.0, ge=0, le=1)
    """Probability that the verdict is the other one; the thought stays."""


def form_judgement(item: Item, rng: random.Random, *, config: FormJudgementConfig) -> str:
    """Write `5/8 5/8` and on the next line the verdict: the reference, then the answer, each as a reduced fraction.

    Of a request of generator `judgements`: `data["response"]` is judged, `data["endings"]` says in which words. What is
    no number is `?`, and wrong. Source: Ma et al. 2025, General-Reasoner (arXiv:2505.14652): a short thought, then the
    decision; their judgements are a large model's, this is a program in its place.
    """
    response, endings = item.data.get("response"), item.data.get("endings")
    if item.data.get("request") != "judge" or not isinstance(response, str) or not isinstance(endings, dict):
        raise InputError(f"demonstrator form_judgement: item {item.id} is no request of generator judgements")
    reference, given = parse_number(item.answer), parse_number(extract_answer(response))
    if reference is None:
        raise InputError(f"demonstrator form_judgement: the reference {item.answer!r} of item {item.id} is no number")
    is_right = (reference == given) != (rng.random() < config.error_rate)
    shown = "?" if given is None or len(str(given)) > MOST_CHARS else str(given)
    return f"{reference} {shown}\n{endings['right' if is_right else 'wrong']}"
