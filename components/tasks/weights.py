"""Weights of rows in a training loss: their column `weight`, on a scale where the largest is 1."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from components.contract.errors import InputError
from components.contract.terminal import short_line

WEIGHT = "weight"
NEGLIGIBLE = 1e-9
"""A smaller share of the largest weight counts as 0: it would vanish beside it in float32."""


def row_weights(rows: Sequence[Mapping[str, Any]]) -> list[float]:
    """Return the weight of each row, 1 where it names none, as a share of the largest.

    Only ratios matter in a weighted mean; on this scale equal weights are exactly 1 each, whatever they were, and train
    to the same bytes as rows without any. Raises InputError for a weight that is no finite number from 0, and for rows
    that all weigh 0.
    """
    weights = [_weight(row, number) for number, row in enumerate(rows, start=1)]
    if weights and not max(weights):
        raise InputError(f"all {len(rows)} rows have weight 0; nothing is left to train on")
    return shares_of_largest(weights)


def shares_of_largest(weights: Sequence[float]) -> list[float]:
    """Return weights from 0 as shares of the largest, 0 where they are negligible beside it, or all are 0."""
    largest = max(weights, default=0.0)
    shares = [weight / largest if largest else 0.0 for weight in weights]
    return [share if share >= NEGLIGIBLE else 0.0 for share in shares]


def checked_weight(value: Any) -> float:
    """Return a weight; raise InputError if it is no finite number from 0."""
    usable = isinstance(value, int | float) and not isinstance(value, bool)
    if usable and 0 <= value <= sys.float_info.max:
        return float(value)
    raise InputError(f"weight {short_line(repr(value), 40)} is no finite number from 0")


def _weight(row: Mapping[str, Any], number: int) -> float:
    try:
        return checked_weight(row.get(WEIGHT, 1.0))
    except InputError as error:
        raise InputError(f"row {number} ({row.get('id', 'without id')}): {error}") from error
