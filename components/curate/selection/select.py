"""Applies the selectors of a recipe, one after the other, to the rows that passed all checks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from components.contract.errors import InputError
from components.contract.operators import Bound
from components.curate.selection.choice import NOT_IN_LEDGER, TOO_FEW_VISITS, Selection
from components.curate.selection.context import SelectionContext
from components.curation.candidate import Candidate
from components.curation.collect import CollectedRows
from components.tasks.weights import WEIGHT

SCORES = "scores"


def apply_selectors(selectors: Sequence[Bound], collection: CollectedRows, context: SelectionContext) -> None:
    """Leave those rows in the collection that every selector keeps; the others are counted as drops of their sources.

    Scores stay with a row as `scores`. Raises InputError where a ledger knows none of the rows.
    """
    for selector in selectors:
        rows = collection.kept
        if not rows:
            return
        found: Selection = selector(rows, context)
        if len(found.reasons) != len(rows) or (found.scores and len(found.scores) != len(rows)):
            raise selector.failed(f"decided on {len(found.reasons)} of {len(rows)} rows")
        _refuse_foreign_ledger(selector, found)
        collection.kept = [
            _scored(row, selector, found, index) for index, row in enumerate(rows) if found.reasons[index] is None
        ]
        for row, reason in zip(rows, found.reasons, strict=True):
            if reason is not None:
                tally = collection.tallies[row.source]
                tally.drops[reason] += 1
                tally.kept -= 1
                tally.selected_out += 1


def _scored(row: Candidate, selector: Bound, found: Selection, index: int) -> Candidate:
    score = found.scores[index] if found.scores else None
    if score is None:
        return row
    weight = {WEIGHT: max(0.0, score)} if found.weigh else {}
    return row.with_extras(**{SCORES: {**row.extras.get(SCORES, {}), selector.shown: score}}, **weight)


def _refuse_foreign_ledger(selector: Bound, found: Selection) -> None:
    counts, none = Counter(found.reasons), f"selector {selector.shown}: none of {len(found.reasons)} rows"
    if counts[NOT_IN_LEDGER] == len(found.reasons):
        raise InputError(
            f"{none} is in the ledger; take those of the dataset that the ledger's stage was given (source: artifact)"
        )
    if counts[TOO_FEW_VISITS] == len(found.reasons):
        raise InputError(
            f"{none} has enough visits in the ledger; connect the metrics of an rl stage that saw these prompts at "
            "least twice (evaluate keeps no visits)"
        )
