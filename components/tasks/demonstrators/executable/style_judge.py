"""A judge of Python programs by what an item's domain prefers: comments, names, or brevity; rated from 1 to 5."""

from __future__ import annotations

import random

from pydantic import Field

from components.contract.errors import InputError, UnknownName
from components.contract.params import Params
from components.tasks.answers import ANSWER_OPEN
from components.tasks.demonstrators.chain_sum_trace import THINK_OPEN
from components.tasks.domains.python_style import PREFERENCES, style
from components.tasks.item import Item
from components.tasks.programs.extract import extract_program

LOWEST, HIGHEST = 1, 5


class StyleJudgeConfig(Params):
    """How often the judge errs."""

    error_rate: float = Field(default=0.0, ge=0, le=1)
    """Probability that a rating is drawn by chance; 1 knows nothing of the response."""


def style_judge(item: Item, rng: random.Random, *, config: StyleJudgeConfig) -> str:
    """Write `<think>comments .50<answer>3` of the response in the request: 1 plus four times its style, rounded.

    The item's domain names the preference. The response is parsed, and never run.
    """
    response, preference = item.data.get("response"), item.domain
    if not isinstance(response, str):
        raise InputError(
            f"demonstrator style_judge: request {item.id} holds no response; it judges, and writes nothing"
        )
    if preference not in PREFERENCES:
        raise UnknownName("preference (the item's domain)", preference, PREFERENCES)
    found = style(extract_program(response, ("python",)), preference)
    rating = LOWEST + round((HIGHEST - LOWEST) * found)
    if rng.random() < config.error_rate:
        rating = rng.randint(LOWEST, HIGHEST)
    return f"{THINK_OPEN}{preference} {found:.2f}{ANSWER_OPEN}{rating}"
