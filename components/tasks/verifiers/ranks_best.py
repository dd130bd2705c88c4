"""Scores of candidates: whether the preferred one has the single highest."""

from __future__ import annotations

from components.contract.params import Params
from components.tasks.candidate_scores import ranking_of
from components.tasks.item import Item
from components.tasks.verify import RIGHT, Verdict, wrong


class RanksBestConfig(Params):
    """No settings: `data` of the row has the candidates, the best one's place and the scale."""


def ranks_best(item: Item, response: str, *, config: RanksBestConfig) -> Verdict:
    """Judge a judge: RIGHT where `data["best"]` has the highest score, and no other candidate has as high a one.

    The answer is one score for each of `data["candidates"]`, within `data["scale"]` (1 to 10 without it), such as
    `4 4 7`; anything else is WRONG. Source: Liu et al. 2025, SPCT (arXiv:2504.02495), the rule of both its stages.
    """
    ranking = ranking_of(item)
    scores = ranking.read(response)
    if scores is None:
        low, high = ranking.scale
        return wrong(f"no {ranking.num_candidates} scores from {low} to {high}: {response[-80:]!r}")
    return RIGHT if ranking.is_right(scores) else wrong(f"scores {scores}, and the best is at {ranking.best + 1}")
