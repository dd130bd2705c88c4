"""What rewards read of a batch as text: the verified text of each row, and its item.

Shapes as in components/rl/batch/batch.py.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from components.rl.batch.batch import Batch
from components.tasks.item import Item


def verified_texts(batch: Batch) -> list[str]:
    """Return S texts: the last turn of each row's trajectory, which is what is verified."""
    if batch.one_row_each:
        return list(batch.texts)
    rows = batch.last_rows.tolist()
    return [batch.texts[rows[trace]] for trace in batch.trace.tolist()]


def items_of(batch: Batch) -> list[Item]:
    """Return S items: the task of each row."""
    return [batch.prompts[group].item for group in batch.group.tolist()]


def of_texts(batch: Batch, grade: Callable[[Item, str], float]) -> Tensor:
    """Return [S]: a grade of each row's item and verified text; equal pairs are graded once."""
    known: dict[tuple[str, str], float] = {}
    found = []
    for item, text in zip(items_of(batch), verified_texts(batch), strict=True):
        if (item.id, text) not in known:
            known[item.id, text] = grade(item, text)
        found.append(known[item.id, text])
    return torch.tensor(found, dtype=torch.float32)
