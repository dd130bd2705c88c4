"""Scores that a judge gives the candidates of one item: which are asked for, and how they are read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from components.contract.errors import InputError
from components.tasks.answers import extract_answer
from components.tasks.item import Item
from components.tasks.verdict import BrokenItem

BEST, SCALE, CANDIDATES = "best", "scale", "candidates"
"""Keys of an item's data."""
SCORES = re.compile(r"[0-9]{1,3}(?:[\s,]+[0-9]{1,3})*")
DEFAULT_SCALE = (1, 10)
"""Source: Liu et al. 2025, DeepSeek-GRM (arXiv:2504.02495): integer scores from 1 to 10."""


@dataclass(frozen=True)
class Ranking:
    """What an item wants of a judge."""

    num_candidates: int
    best: int
    """Place of the candidate that is preferred, from 0."""
    scale: tuple[int, int]
    """Lowest and highest score."""

    def read(self, response: str) -> tuple[int, ...] | None:
        """Return the scores of a response, `4 4 7` or `4, 4, 7`; None unless its answer is one in scale for each."""
        text = extract_answer(response)
        if SCORES.fullmatch(text) is None:
            return None
        scores = tuple(map(int, re.split(r"[\s,]+", text)))
        low, high = self.scale
        whole = len(scores) == self.num_candidates and low <= min(scores) and max(scores) <= high
        return scores if whole else None

    def is_right(self, totals: Sequence[float]) -> bool:
        """Return whether the best candidate has the highest of these scores, or sums of scores, and it alone."""
        return all(totals[self.best] > total for place, total in enumerate(totals) if place != self.best)


def ranking_of(item: Item) -> Ranking:
    """Return what an item wants; raise BrokenItem where its data do not say it."""
    candidates, best = item.data.get(CANDIDATES), item.data.get(BEST)
    scale = item.data.get(SCALE, list(DEFAULT_SCALE))
    if not (isinstance(candidates, list) and len(candidates) > 1):
        raise BrokenItem(f"data.{CANDIDATES} is no list of two candidates or more: {candidates!r:.80}")
    if not (type(best) is int and 0 <= best < len(candidates)):
        raise BrokenItem(f"data.{BEST} is no place from 0 to {len(candidates) - 1}: {best!r:.80}")
    if not (isinstance(scale, list) and [type(end) for end in scale] == [int, int] and 0 <= scale[0] < scale[1] < 1000):
        raise BrokenItem(f"data.{SCALE} is no list of a lowest and a highest score, from 0 to 999: {scale!r:.80}")
    return Ranking(len(candidates), best, (scale[0], scale[1]))


def ranked_items(owner: str, items: Iterable[Item]) -> list[Ranking]:
    """Return what each item wants; raise InputError, which `owner` begins, for one without candidates to be ranked."""
    found = []
    for item in items:
        try:
            found.append(ranking_of(item))
        except BrokenItem as error:
            raise InputError(f"{owner}: item {item.id} has no candidates to be ranked: {error}") from error
    return found
