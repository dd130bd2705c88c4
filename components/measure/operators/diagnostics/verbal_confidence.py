"""Whether the confidence that responses state matches how often they are right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from components.measure.confidence import ConfidenceSettings
from components.measure.harness.configs import DiagnosticConfig

if TYPE_CHECKING:
    from components.measure.harness.context import MeasureContext
    from components.measure.harness.views import View
    from components.measure.outcomes import ItemOutcomes


class VerbalConfidenceConfig(ConfidenceSettings, DiagnosticConfig):
    """How a response states its confidence, and what counts as an abstention."""

    gives: ClassVar[Mapping[str, str]] = {
        "verbal_ece": "Expected calibration error of stated confidence, bins of equal width",
        "verbal_ece_adaptive": "The same over bins of equally many responses",
        "verbal_auroc": "Chance that a right response states more confidence than a wrong one",
        "verbal_brier": "Mean squared distance of stated confidence and outcome, over responses that state one",
        "verbal_mean": "Mean stated confidence",
        "verbal_unstated": "Judged responses that state no confidence",
        "verbal_outside": "Judged responses that state a number outside of [0, 1]",
        "abstained": "Share of judged responses whose answer is one of `abstentions`",
        "answered_right": "Share of right ones among responses that do not abstain",
        "wrong_answered": "Share of judged responses that answer, and wrongly",
    }

    bins: int = Field(default=10, ge=2, le=100)
    """Bins of both calibration errors. Source: Damani et al. 2025, RLCR (arXiv:2507.16806): 10."""
    abstentions: tuple[str, ...] = ("unknown", "I don't know")
    """Answers that abstain, whatever their case."""


def verbal_confidence(
    outcomes: Mapping[str, Sequence[ItemOutcomes]], context: MeasureContext, *, config: VerbalConfidenceConfig
) -> View:
    """Return calibration, discrimination and abstention by domain, over judged responses.

    ECE as of Guo et al. 2017, AUROC as the statistic of Mann and Whitney. Responses that state no confidence,
    or none in [0, 1], are counted and in neither. Intervals resample prompts.
    """
    from components.measure.views.verbal import confidence_view

    return confidence_view(outcomes, context.bootstrap, config, bins=config.bins, abstentions=config.abstentions)
