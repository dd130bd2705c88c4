"""How different the records are that responses show, whatever their errors."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from components.measure.harness.configs import MetricConfig
from components.tasks.answers import extract_answer
from components.tasks.domains.worlds.records import ENCODINGS, Record, read_view, reconstruct

if TYPE_CHECKING:
    from components.measure.harness.context import MeasureContext
    from components.measure.outcomes import ItemOutcomes
    from components.tasks.item import Item


class RecordDiversityConfig(MetricConfig):
    """No settings of its own."""

    gives: ClassVar[Mapping[str, str]] = {
        "record_diversity": "Entropy of the reconstructed records of a prompt's samples over the most it could be"
    }


def record_diversity(
    outcomes: Sequence[ItemOutcomes], context: MeasureContext, *, config: RecordDiversityConfig
) -> Mapping[str, list[float | None]]:
    """Return H / log(min(n, fillings)) of each prompt of source `views`: 1 where all n records differ, 0 where none do.

    A response counts by the record that most of its views agree on, so that errors of single views are not variety. One
    whose views cannot be read is left out of n. None for other prompts, and where nothing could vary.
    Source: Carve3D, whose longer SFT loses variety of objects; the measure is ours.
    """
    return {"record_diversity": [_of_prompt(outcome) for outcome in outcomes]}


def _of_prompt(outcome: ItemOutcomes) -> float | None:
    data = outcome.item.data
    stated, values = data.get("given"), data.get("values")
    if outcome.item.verifier != "views" or not isinstance(stated, list) or not isinstance(values, int):
        return None
    counts = Counter(record for text in outcome.responses if (record := _record(outcome.item, text)) is not None)
    drawn, gaps = counts.total(), stated.count(None)
    most = min(math.log(drawn), gaps * math.log(values)) if drawn else 0.0
    if most <= 0:
        return None
    entropy = -math.fsum(n / drawn * math.log(n / drawn) for n in counts.values())
    return min(1.0, max(0.0, entropy / most))  # records that contradict the prompt are more than there are fillings


def _record(item: Item, text: str) -> Record | None:
    """Return what a response's views show together; None where none of them can be read."""
    names = [str(name) for name in item.data["encodings"] if str(name) in ENCODINGS]
    size, values = len(item.data["given"]), item.data["values"]
    written = zip(names, extract_answer(text).split(), strict=False)
    read = [record for name, view in written if (record := read_view(name, view, size, values)) is not None]
    return reconstruct(read) if read else None
