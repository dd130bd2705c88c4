"""N-gram overlap of answers with their references: how literal they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from components.measure.harness.configs import MetricConfig
from components.tasks.ngram_overlap import Overlap

if TYPE_CHECKING:
    from components.measure.harness.context import MeasureContext
    from components.measure.outcomes import ItemOutcomes


class NgramOverlapMetricConfig(MetricConfig):
    """Which n-grams are compared."""

    gives: ClassVar[Mapping[str, str]] = {
        "ngram_overlap": "Mean sentence BLEU of a prompt's answers with its reference, from 0 to 1",
    }
    overlap: Overlap = Overlap()
    """Largest n, and words or characters."""


def ngram_overlap(
    outcomes: Sequence[ItemOutcomes], context: MeasureContext, *, config: NgramOverlapMetricConfig
) -> Mapping[str, list[float | None]]:
    """Return the mean over each prompt's responses; nothing for a prompt whose item has no reference.

    Source: MT-R1-Zero (arXiv:2504.10160), which reports BLEU beside learned metrics.
    """
    from components.tasks.answers import extract_answer

    found: list[float | None] = []
    for outcome in outcomes:
        reference = outcome.item.answer
        values = [config.overlap.of(extract_answer(text), reference) for text in outcome.responses if reference]
        found.append(sum(values) / len(values) if values else None)
    return {"ngram_overlap": found}
