"""Majority vote: the most frequent answer of k samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from components.measure.harness.configs import StrategyConfig

if TYPE_CHECKING:
    from components.measure.harness.context import MeasureContext, Spent
    from components.measure.outcomes import ItemOutcomes


class MajorityConfig(StrategyConfig):
    """A vote has no settings; its numbers are called maj_at_k, as an evaluation always calls them."""

    short: ClassVar[str] = "maj"


def majority(
    outcomes: Sequence[ItemOutcomes], context: MeasureContext, *, config: MajorityConfig
) -> Mapping[int, Spent]:
    """Answer with the most frequent of k answers: maj@k, and k times a prompt's mean length.

    Source: Wang et al. 2022, Self-Consistency (arXiv:2203.11171). Only judged responses vote.
    """
    from components.measure.formulas.majority import maj_at_k_values
    from components.measure.harness.spending import spending

    ks = context.ks_of(outcomes)
    return spending(outcomes, ks, [maj_at_k_values(*outcome.verified_answers, ks).tolist() for outcome in outcomes])
