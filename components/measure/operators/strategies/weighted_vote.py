"""A vote in which each sample has the weight of its score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from components.measure.harness.configs import StrategyConfig
from components.measure.scores import ScoreSettings, response_scores

if TYPE_CHECKING:
    from components.measure.harness.context import MeasureContext, Spent
    from components.measure.outcomes import ItemOutcomes


class WeightedVoteConfig(ScoreSettings, StrategyConfig):
    """What votes weigh, and how exactly their expectation is taken."""

    short: ClassVar[str] = "vote"

    subsets: int = Field(default=256, ge=1, le=100_000)
    """Draws of k from n that are counted: all of them when there are no more, else this many by chance."""


def weighted_vote(
    outcomes: Sequence[ItemOutcomes], context: MeasureContext, *, config: WeightedVoteConfig
) -> Mapping[int, Spent]:
    """Answer with the largest sum of scores among k samples; mean over draws of k from those judged.

    Source: Damani et al. 2025, RLCR (arXiv:2507.16806), confidence-weighted majority. With equal scores it is maj@k.
    """
    from components.measure.formulas.choosing import weighted_vote_at
    from components.measure.harness.spending import spending
    from components.tasks.seeds import derive_seed

    ks, found = context.ks_of(outcomes), []
    for outcome, scores in zip(outcomes, response_scores(outcomes, context, config), strict=True):
        rows = list(outcome.verified())
        answers, right = outcome.verified_answers
        seed = derive_seed(context.seed, "weighted_vote", outcome.item.id)
        weights = [scores[row] for row in rows]
        found.append(weighted_vote_at(answers, right, weights, ks, subsets=config.subsets, seed=seed))
    return spending(outcomes, ks, found)
