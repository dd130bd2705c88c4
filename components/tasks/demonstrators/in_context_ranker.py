"""A simulated judge that ranks responses, and errs the less the more of what it is shown is ranked right."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import combinations
from typing import Any

from pydantic import Field

from components.contract.errors import InputError
from components.contract.params import Params
from components.tasks.item import Item
from components.tasks.orders import RANKED, right_share
from components.tasks.verify import verify_all

CHANCE = 0.5


class InContextRankerConfig(Params):
    """How often the judge errs without help."""

    error_rate: float = Field(default=0.5, ge=0, le=1)
    """Probability that a comparison is the other way round, times the share of demonstrated pairs in the wrong order;
    never more than a half, which is chance."""


def in_context_ranker(item: Item, rng: random.Random, *, config: InContextRankerConfig) -> str:
    """Rank `data["responses"]` by the item's verifier, with errors, behind `data["mark"]`: `Verdict 3f: 2 > 1 > 3`.

    Every two responses are compared once, and the order is by comparisons won; equal ones are drawn. The share of
    `data["demonstrations"]`, rows with `ranked` in their data, is the mean over those that have pairs of different
    scores; without any it is 0. Source: CycleAlign (arXiv:2310.16271), whose judge is a model that reads rankings in
    its context; this is a program in its place.
    """
    responses, shown, mark = (item.data.get(key) for key in ("responses", "demonstrations", "mark"))
    if not (isinstance(responses, list) and len(responses) > 1 and isinstance(shown, list) and isinstance(mark, str)):
        raise InputError(f"demonstrator in_context_ranker: item {item.id} has no responses to rank (data.responses)")
    error = min(CHANCE, config.error_rate * (1 - demonstrated_share(shown)))
    scores = _scores(item, responses)
    wins = [0] * len(responses)
    for one, other in combinations(range(len(responses)), 2):
        better = scores[one] > scores[other] if scores[one] != scores[other] else rng.random() < CHANCE
        wins[one if better != (rng.random() < error) else other] += 1
    order = sorted(range(len(responses)), key=lambda place: (-wins[place], rng.random()))
    return f"{mark} {' > '.join(str(place + 1) for place in order)}"


def demonstrated_share(rows: Sequence[dict[str, Any]]) -> float:
    """Return the mean share of pairs in the right order over demonstrations that tell anything, else 0."""
    found = []
    for row in rows:
        item = Item.model_validate(row)
        found.append(right_share(_scores(item, item.data[RANKED])))
    known = [share for share in found if share is not None]
    return sum(known) / len(known) if known else 0.0


def _scores(item: Item, responses: Sequence[str]) -> list[float]:
    """Return the gold score of each response; InputError where the verifier gives none."""
    verdicts = verify_all((item, text) for text in responses)
    if bad := next((one for one in verdicts if one.failed), None):
        raise InputError(f"demonstrator in_context_ranker: item {item.id} has no gold score: {bad.detail}")
    return [one.score for one in verdicts]
