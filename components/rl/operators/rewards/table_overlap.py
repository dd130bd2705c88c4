"""How many cells of a table agree with those of the reference."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar

from components.rl.configs import RewardConfig
from components.rl.step.context import SlotContext
from components.tasks.answers import extract_answer

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


RULE = re.compile(r"[\s|:+-]*")
"""A line between a table's head and its rows."""
Cell = tuple[str, str, str]
"""Row key (the row's first cell), column head and value, without case and outer white space."""


class TableOverlapConfig(RewardConfig):
    """No settings of its own."""

    reads: ClassVar[frozenset[str]] = frozenset({"answers"})


def table_overlap(batch: Batch, context: SlotContext, *, config: TableOverlapConfig) -> Tensor:
    """Return [S]: the F1 score of the answer's cells against the reference's, both tables of lines `a | b | c`.

    A cell agrees if its row's first cell, its column's head and its text do; the order of rows and columns is free.
    A cell that is written twice counts once. 0 for a response without a table.
    """
    from components.rl.batch.texts import of_texts

    def grade(expected: str, text: str) -> float:
        given, wanted = cells(extract_answer(text)), cells(expected)
        return 2 * len(given & wanted) / (len(given) + len(wanted)) if given and wanted else 0.0

    return of_texts(batch, lambda item, text: grade(item.answer, text))


def cells(text: str) -> set[Cell]:
    """Return the cells of a table whose first line is its head and whose first column names the rows."""
    lines = [line.strip().strip("|") for line in text.splitlines() if "|" in line and not RULE.fullmatch(line)]
    rows = [[cell.strip().casefold() for cell in line.split("|")] for line in lines]
    if len(rows) < 2:
        return set()
    head = rows[0]
    return {(row[0], name, value) for row in rows[1:] for name, value in zip(head[1:], row[1:], strict=False)}
