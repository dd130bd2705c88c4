"""Verifier calls until the first right response, in the order of a coreset against random order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from components.measure.harness.configs import MetricConfig
from components.measure.novelty import CoresetSettings, coreset_orders

if TYPE_CHECKING:
    from components.measure.harness.context import MeasureContext
    from components.measure.outcomes import ItemOutcomes


class CoresetCallsConfig(CoresetSettings, MetricConfig):
    """As of strategy coreset."""

    gives: ClassVar[Mapping[str, str]] = {
        "calls_coreset": "Verifier calls until the first right response, the most novel ones first",
        "calls_random": "The same in random order, in expectation",
    }


def coreset_calls(
    outcomes: Sequence[ItemOutcomes], context: MeasureContext, *, config: CoresetCallsConfig
) -> Mapping[str, list[float | None]]:
    """Return both counts of each prompt, None for one without a right response.

    Source: Tuyls et al. 2025 (arXiv:2510.11686). Random order takes (n + 1) / (c + 1).
    """
    from components.measure.formulas.spread import calls_to_first_right, expected_calls

    calls: list[float | None] = []
    for outcome, order in zip(outcomes, coreset_orders(outcomes, context, config), strict=True):
        found = calls_to_first_right([outcome.verdicts[row].right for row in order])
        calls.append(None if found is None else float(found))
    randomly = [expected_calls(outcome.num_verified, outcome.num_right) for outcome in outcomes]
    return {"calls_coreset": calls, "calls_random": randomly}
