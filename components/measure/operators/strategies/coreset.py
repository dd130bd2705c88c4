"""A coreset: the most novel of the samples are verified first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from components.measure.harness.configs import StrategyConfig
from components.measure.novelty import CoresetSettings, coreset_orders

if TYPE_CHECKING:
    from components.measure.harness.context import MeasureContext, Spent
    from components.measure.outcomes import ItemOutcomes


class CoresetConfig(CoresetSettings, StrategyConfig):
    """As CoresetSettings."""


def coreset(outcomes: Sequence[ItemOutcomes], context: MeasureContext, *, config: CoresetConfig) -> Mapping[int, Spent]:
    """Verify the k most novel of all samples: right if one of them is, for the tokens of all samples.

    Greedy by elliptical novelty given those picked before. Source: Tuyls et al. 2025 (arXiv:2510.11686). Only judged
    responses take part.
    """
    from components.measure.harness.context import Spent

    orders = coreset_orders(outcomes, context, config)
    tokens = [float(sum(outcome.lengths)) if outcome.num_verified else None for outcome in outcomes]
    found = {}
    for k in context.ks_of(outcomes):
        solved = [
            float(any(outcome.verdicts[row].right for row in order[:k])) if len(order) >= k else None
            for outcome, order in zip(outcomes, orders, strict=True)
        ]
        found[k] = Spent(
            solved, [cost if value is not None else None for cost, value in zip(tokens, solved, strict=True)]
        )
    return found
