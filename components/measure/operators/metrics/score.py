"""Mean score of the verdicts: partial credit where the verifier gives it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from components.measure.harness.configs import MetricConfig

if TYPE_CHECKING:
    from components.measure.harness.context import MeasureContext
    from components.measure.outcomes import ItemOutcomes


class ScoreConfig(MetricConfig):
    """No settings of its own."""

    gives: ClassVar[Mapping[str, str]] = {"score": "Mean score of the judged responses, from 0 to 1"}


def score(
    outcomes: Sequence[ItemOutcomes], context: MeasureContext, *, config: ScoreConfig
) -> Mapping[str, list[float | None]]:
    """Return the mean score of each prompt's judged responses; without grades 1 is right and 0 is wrong."""
    return {"score": [_of_prompt(outcome) for outcome in outcomes]}


def _of_prompt(outcome: ItemOutcomes) -> float | None:
    scores = [outcome.verdicts[row].score for row in outcome.verified()]
    return sum(scores) / len(scores) if scores else None
