"""How well a classifier that writes labels finds one class: precision, recall and F1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from components.measure.harness.configs import DiagnosticConfig

if TYPE_CHECKING:
    from components.measure.harness.context import MeasureContext
    from components.measure.harness.views import View
    from components.measure.outcomes import ItemOutcomes


class LabelF1Config(DiagnosticConfig):
    """Which class is looked for."""

    gives: ClassVar[Mapping[str, str]] = {
        "label_f1": "F1 of the class `positive`: harmonic mean of precision and recall",
        "label_precision": "Share of answers `positive` whose item is of that class",
        "label_recall": "Share of the class's judged responses that say so",
    }

    positive: str = Field(default="y", min_length=1)
    """The label of the class, as items' answers have it; case and white space around it do not count."""


def label_f1(outcomes: Mapping[str, Sequence[ItemOutcomes]], context: MeasureContext, *, config: LabelF1Config) -> View:
    """Return the three numbers of each domain over all judged responses; intervals resample prompts.

    Any other answer, or none, counts as another class. A domain without the class, or in which no answer names it,
    lacks the numbers that it leaves undefined. F1 as of van Rijsbergen 1979; DuoGuard reports it per language.
    """
    from components.measure.views.labels import labels_view

    return labels_view(outcomes, context.bootstrap, config.positive)
