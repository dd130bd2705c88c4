"""Stepwise rows: the steps of one response, each with a label or a value; TRL's stepwise supervision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from components.contract.errors import InputError
from components.tasks.row_kinds.reading import (
    Judged,
    checked_text,
    is_number,
    shared_fields,
    shown,
    task_of,
    with_columns,
)

COMPLETIONS, LABELS = "completions", "labels"


@dataclass(frozen=True, kw_only=True)
class Stepwise(Judged):
    """The steps of one response, in order, and what was said of each."""

    completions: tuple[str, ...]
    labels: tuple[float, ...]
    """1 where a step is right, 0 where it is wrong; between them, how often it led to a right end."""

    def row(self) -> dict[str, Any]:
        """Return it as a row of a Dataset; labels that are all 0 or 1 as false and true, as TRL reads them."""
        plain = all(label in (0, 1) for label in self.labels)
        labels = [bool(label) for label in self.labels] if plain else list(self.labels)
        return {**super().row(), COMPLETIONS: list(self.completions), LABELS: labels}


def stepwise_of(row: Mapping[str, Any]) -> Stepwise:
    """Return a row's steps and labels; raise InputError, in one line, unless there is one label for each step."""
    with_columns(row, "stepwise")
    steps, labels = row[COMPLETIONS], row[LABELS]
    for name, values in ((COMPLETIONS, steps), (LABELS, labels)):
        if not isinstance(values, list | tuple) or not values:
            raise InputError(f"{name} {shown(values)} is no list with one entry for each step")
    if len(steps) != len(labels):
        raise InputError(f"{len(steps)} completions and {len(labels)} labels; each step has one label")
    return Stepwise(
        task=task_of(row),
        completions=tuple(checked_text(step, f"{COMPLETIONS}[{at}]") for at, step in enumerate(steps)),
        labels=tuple(_label(label, f"{LABELS}[{at}]") for at, label in enumerate(labels)),
        **shared_fields(row),
    )


def _label(value: Any, name: str) -> float:
    if (isinstance(value, bool) or is_number(value)) and 0 <= value <= 1:
        return float(value)
    raise InputError(f"{name} {shown(value)} is neither true nor false, nor a value from 0 to 1")
