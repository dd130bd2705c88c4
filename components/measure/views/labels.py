"""The view of one class: precision, recall and F1 of what a classifier wrote.

Shapes: P prompts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from components.measure.harness.views import View, ViewTable
from components.measure.intervals import Bootstrap, Floats, Interval
from components.measure.metrics import metric_key
from components.measure.outcomes import ItemOutcomes

TEXT = (
    "Of all responses that could be judged. A classifier that always names the class has a recall of 100 %, so read "
    "precision beside it."
)


def labels_view(outcomes: Mapping[str, Sequence[ItemOutcomes]], bootstrap: Bootstrap, positive: str) -> View:
    """Return the view of all domains; what is undefined in one is left out there."""
    metrics: dict[str, Interval | float] = {}
    rows: list[list[str | float | Interval | None]] = []
    for domain, found in outcomes.items():
        numbers = _numbers(_counts(found, positive), bootstrap)
        metrics |= {metric_key(name, domain): value for name, value in numbers.items()}
        rows.append([domain, *(numbers.get(name) for name in ("label_precision", "label_recall", "label_f1"))])
    head = ["domain", "precision", "recall", "F1"]
    return View(TEXT, metrics, [ViewTable(f"class {positive}", head, rows, percent=True)])


def _counts(outcomes: Sequence[ItemOutcomes], positive: str) -> Floats:
    """Return [P, 3]: of each prompt's judged responses, how many name the class, are of it, and both."""
    counts = np.zeros((len(outcomes), 3))
    wanted = positive.strip().casefold()
    for place, outcome in enumerate(outcomes):
        is_positive = outcome.item.answer.strip().casefold() == wanted
        answers, _ = outcome.verified_answers
        named = sum((answer or "").strip().casefold() == wanted for answer in answers)
        counts[place] = named, is_positive * len(answers), is_positive * named
    return counts


def _numbers(counts: Floats, bootstrap: Bootstrap) -> dict[str, Interval]:
    named, due, both = counts.T
    found = {
        "label_precision": _ratio(both, named, bootstrap),
        "label_recall": _ratio(both, due, bootstrap),
        "label_f1": _ratio(2 * both, named + due, bootstrap),
    }
    return {name: one for name, one in found.items() if np.isfinite(one.value)}


def _ratio(part: Floats, whole: Floats, bootstrap: Bootstrap) -> Interval:
    """Return the ratio of two sums over prompts [P], with its interval."""

    def statistic(prompts: Floats) -> Floats:
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.einsum("bp,p->b", prompts, part) / np.einsum("bp,p->b", prompts, whole)

    return bootstrap.statistic(statistic, len(part))
