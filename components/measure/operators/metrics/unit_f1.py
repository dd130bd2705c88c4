"""How well critiques name the flaws that there are: precision, recall and F1 of their units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from components.measure.harness.configs import MetricConfig

if TYPE_CHECKING:
    from components.measure.harness.context import MeasureContext
    from components.measure.outcomes import ItemOutcomes


class UnitF1Config(MetricConfig):
    """No settings."""

    gives: ClassVar[Mapping[str, str]] = {
        "unit_f1": "F1 of the flaws that a critique names, the mean over a prompt's critiques",
        "unit_precision": "Share of the flaws named that are there",
        "unit_recall": "Share of the flaws there that are named",
    }


def unit_f1(
    outcomes: Sequence[ItemOutcomes], context: MeasureContext, *, config: UnitF1Config
) -> Mapping[str, list[float | None]]:
    """Return the three shares of each prompt, against the flaws that its answer names (generator merged_critiques).

    A critique that names none where there is none has 1; one that cannot be read names none, and has 0 there.
    Source: Lan et al. 2024 (MultiCritique): critiques are measured by F1 against gold flaws.
    """
    from components.tasks.answers import ANSWER_OPEN
    from components.tasks.critique_units import agreement, units_of

    found: dict[str, list[float | None]] = {name: [] for name in ("unit_precision", "unit_recall", "unit_f1")}
    for outcome in outcomes:
        gold = units_of(f"{ANSWER_OPEN}{outcome.item.answer}") or []
        read = [units_of(text) for text in outcome.responses]
        rows = [(0.0, 0.0, 0.0) if units is None else agreement(units, gold) for units in read]
        for values, column in zip(found.values(), zip(*rows, strict=True), strict=True):
            values.append(sum(column) / len(column))
    return found
