"""Best of n by a reward model: the sample that it scores highest is the answer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from components.contract.further import SCORERS
from components.contract.heads import SCORES, Head
from components.measure.harness.configs import StrategyConfig

if TYPE_CHECKING:
    from components.measure.harness.context import MeasureContext, Spent
    from components.measure.outcomes import ItemOutcomes


class BestOfNRewardConfig(StrategyConfig):
    """The scorer is the first model at input `scorers`."""

    asks: ClassVar[tuple[str, ...]] = (SCORERS,)
    asks_heads: ClassVar[frozenset[Head]] = SCORES
    short: ClassVar[str] = "best_reward"


def best_of_n_reward(
    outcomes: Sequence[ItemOutcomes], context: MeasureContext, *, config: BestOfNRewardConfig
) -> Mapping[int, Spent]:
    """Answer with the sample of k that the reward model scores highest, in expectation over draws of k.

    Of tied samples any is taken; one that cannot be scored is behind all others. Stiennon et al. 2020
    (arXiv:2009.01325), section 4; Cobbe et al. 2021 (arXiv:2110.14168).
    """
    from components.measure.formulas.choosing import best_of
    from components.measure.harness.spending import spending
    from components.measure.rating import rewards_of

    ks, found = context.ks_of(outcomes), []
    for outcome, rewards in zip(outcomes, rewards_of(context.further[SCORERS][0], outcomes), strict=True):
        rows = list(outcome.verified())
        scores = [-math.inf if (reward := rewards[row]) is None else reward for row in rows]
        found.append(best_of(scores, outcome.verified_answers[1], ks))
    return spending(outcomes, ks, found)
