"""A judge of rewrites in the dialect of source dialects: how faithful one is to its word, from 1 to 5."""

from __future__ import annotations

import random

from pydantic import Field

from components.contract.errors import InputError
from components.contract.params import Params
from components.tasks.answers import ANSWER_OPEN, extract_answer
from components.tasks.domains.worlds.dialects import HIGHEST, LOWEST, fidelity
from components.tasks.item import Item


class DialectJudgeConfig(Params):
    """How often the judge errs."""

    error_rate: float = Field(default=0.0, ge=0, le=1)
    """Probability that a rating is drawn by chance."""


def dialect_judge(item: Item, rng: random.Random, *, config: DialectJudgeConfig) -> str:
    """Write `<answer>4` of the rewrite in the request: 5 less the letters that differ, 1 where it changed sides.

    Source: DuoGuard's quality gate, an LLM that rates rewrites; here a program, which knows the language.
    """
    word, response = item.data.get("word"), item.data.get("response")
    if not (isinstance(word, str) and isinstance(response, str)):
        raise InputError(
            f"demonstrator dialect_judge: request {item.id} holds no rewrite of a word of source dialects (data.word, "
            "data.response)"
        )
    rating = fidelity(word, extract_answer(response))
    if rng.random() < config.error_rate:
        rating = rng.randint(LOWEST, HIGHEST)
    return f"{ANSWER_OPEN}{rating}"
