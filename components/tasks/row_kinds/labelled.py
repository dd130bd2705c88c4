"""Labelled rows: one response with a label (is it desirable?), a score, or both; TRL's unpaired preferences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from components.contract.errors import InputError
from components.tasks.row_kinds.preferences import Preference
from components.tasks.row_kinds.reading import (
    Judged,
    number_of,
    response_text,
    shared_fields,
    task_of,
    text_or_none,
    truth_of,
    with_columns,
)

COMPLETION, LABEL, SCORE, RATIONALE = "completion", "label", "score", "rationale"


@dataclass(frozen=True, kw_only=True)
class Labelled(Judged):
    """One response and what was said of it."""

    completion: str
    label: bool | None = None
    """Whether it is desirable."""
    score: float | None = None
    rationale: str | None = None
    """Why, in words."""

    def row(self) -> dict[str, Any]:
        """Return it as a row of a Dataset."""
        more = {LABEL: self.label, SCORE: self.score, RATIONALE: self.rationale}
        known = {name: value for name, value in more.items() if value is not None}
        return {**super().row(), COMPLETION: self.completion, **known}


def labelled_of(row: Mapping[str, Any]) -> Labelled:
    """Return what a row labels; raise InputError, in one line, for a row without a label or score, or a wrong one."""
    with_columns(row, "labelled")
    label, score = row.get(LABEL), number_of(row, SCORE)
    if label is None and score is None:
        raise InputError("no label and no score: a labelled row has one of them, or both")
    return Labelled(
        task=task_of(row),
        completion=response_text(row[COMPLETION], COMPLETION),
        label=None if label is None else truth_of(label, LABEL),
        score=score,
        rationale=text_or_none(row, RATIONALE),
        **shared_fields(row),
    )


def unpaired(pairs: Iterable[Preference]) -> Iterator[Labelled]:
    """Yield the chosen responses of all pairs as desirable, and then the rejected ones as not, in TRL's order.

    Side by side, the row before another prompt's would always be a rejected one, and whoever takes responses from
    there (KTO's estimate of the divergence) would see no other.
    """
    known = list(pairs)
    for label in (True, False):
        for pair in known:
            shared: dict[str, Any] = {"task": pair.task, "domain": pair.domain, "weight": pair.weight}
            shared["where"] = pair.where
            yield Labelled(completion=pair.chosen if label else pair.rejected, label=label, **shared)
