"""Best of n: the sample with the highest score is the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from components.measure.harness.configs import StrategyConfig
from components.measure.scores import ScoreSettings, response_scores

if TYPE_CHECKING:
    from components.measure.harness.context import MeasureContext, Spent
    from components.measure.outcomes import ItemOutcomes


class BestOfNConfig(ScoreSettings, StrategyConfig):
    """What samples are compared by."""

    short: ClassVar[str] = "best"


def best_of_n(
    outcomes: Sequence[ItemOutcomes], context: MeasureContext, *, config: BestOfNConfig
) -> Mapping[int, Spent]:
    """Answer with the highest score of k samples, in expectation over all draws of k from those judged.

    Of tied samples any is taken. A response without a score has 0.
    """
    from components.measure.formulas.choosing import best_of
    from components.measure.harness.spending import spending

    ks, found = context.ks_of(outcomes), []
    for outcome, scores in zip(outcomes, response_scores(outcomes, context, config), strict=True):
        rows = list(outcome.verified())
        found.append(best_of([scores[row] for row in rows], outcome.verified_answers[1], ks))
    return spending(outcomes, ks, found)
