"""Brier score of the confidence that responses state, a value for each prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from components.measure.confidence import ConfidenceSettings
from components.measure.harness.configs import MetricConfig

if TYPE_CHECKING:
    from components.measure.harness.context import MeasureContext
    from components.measure.outcomes import ItemOutcomes


class VerbalBrierConfig(ConfidenceSettings, MetricConfig):
    """How a response states its confidence."""

    gives: ClassVar[Mapping[str, str]] = {
        "verbal_score": "Mean squared distance of stated confidence and outcome; 1 where none is stated",
    }


def verbal_brier(
    outcomes: Sequence[ItemOutcomes], context: MeasureContext, *, config: VerbalBrierConfig
) -> Mapping[str, list[float | None]]:
    """Return (q - c)^2 by prompt, mean over judged responses.

    Source: Brier 1950. A response that states no confidence in [0, 1] has the worst score: silence must not pay.
    """
    return {"verbal_score": [_of_prompt(outcome, config) for outcome in outcomes]}


def _of_prompt(outcome: ItemOutcomes, config: VerbalBrierConfig) -> float | None:
    found = []
    for row in outcome.verified():
        stated = config.read(outcome.responses[row]).value
        found.append(1.0 if stated is None else (stated - outcome.verdicts[row].right) ** 2)
    return sum(found) / len(found) if found else None
