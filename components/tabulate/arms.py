"""Arms: the inputs of the stage grouped by their labels, each with a pass rate for every prompt and repeat."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from components.contract.context import Input
from components.contract.errors import InputError
from components.measure.ledger import PassRateRow, read_ledger
from components.tabulate.params import Cell, Label, arm_name

Repeat = tuple[Label, ...]


@dataclass
class Arm:
    """One arm with its repeats."""

    name: str
    labels: dict[str, Label]
    """Without those of the repeats."""
    ledgers: dict[Repeat, Mapping[str, Mapping[str, PassRateRow]]] = field(default_factory=dict)
    """Labels of the repeats -> domain -> prompt -> outcomes."""

    def values(self, domain: str, repeat: Repeat) -> dict[str, float]:
        """Return prompt -> pass rate of one repeat; prompts without a verified sample are left out."""
        rows = self.ledgers[repeat].get(domain, {})
        return {prompt: row.value for prompt, row in rows.items() if not math.isnan(row.value)}


def cells_of(inputs: Sequence[Input], cells: Sequence[Cell]) -> list[Cell]:
    """Return the cell of each input: the one of its source or, for cells without sources, of its position.

    Raises InputError for an input without a cell, or with one that another input has.
    """
    by_source = {cell.source: cell for cell in cells if cell.source}
    if by_source and all(found.source in by_source for found in inputs):
        return [by_source[found.source] for found in inputs]
    if len(cells) != len(inputs):
        raise InputError(
            f"{len(inputs)} inputs are connected, and {len(cells)} cells say what they are; give `cells` one entry "
            "with `labels` for each input"
        )
    return list(cells)


def read_arms(inputs: Sequence[Input], cells: Sequence[Cell], repeats: tuple[str, ...]) -> list[Arm]:
    """Return the arms in the order of their first input.

    Raises InputError for two inputs of the same arm and repeat.
    """
    arms: dict[str, Arm] = {}
    for found, cell in zip(inputs, cells_of(inputs, cells), strict=True):
        labels = {axis: label for axis, label in cell.labels.items() if axis not in repeats}
        arm = arms.setdefault(arm_name(cell, repeats), Arm(arm_name(cell, repeats), labels))
        repeat = tuple(cell.labels.get(axis, "") for axis in repeats)
        if repeat in arm.ledgers:
            raise InputError(f"arm {arm.name!r}: two inputs have the same labels, {cell.labels}; tell them apart")
        arm.ledgers[repeat] = read_ledger(found.path)
    return list(arms.values())
