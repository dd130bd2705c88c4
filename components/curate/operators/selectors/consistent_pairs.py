"""Pairs that say one thing: no equal sides, no pair twice, none whose opposite is there, too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import Field

from components.contract.errors import InputError
from components.curate.selection.choice import Selection
from components.curate.selection.config import SelectorConfig
from components.curate.selection.context import SelectionContext
from components.curation.candidate import Candidate
from components.curation.operators.dedup import normalised
from components.tasks.row_kinds.preferences import CHOSEN, MARGIN, PREFIX, REJECTED

EQUAL_SIDES, REPEATED_PAIR, CONTRADICTED, SMALL_MARGIN = "equal_sides", "repeated_pair", "contradicted", "small_margin"
Pair = tuple[str, str, str, str]
"""Prompt, what both sides say first, chosen and rejected response."""


class ConsistentPairsConfig(SelectorConfig):
    """What else a pair needs."""

    min_margin: float | None = Field(default=None, ge=0)
    """Drop pairs whose `margin` is smaller, or that have none; null keeps them."""


def consistent_pairs(
    rows: Sequence[Candidate], context: SelectionContext, *, config: ConsistentPairsConfig
) -> Selection:
    """Drop pairs with equal sides, copies of kept ones, and all pairs of which some prefer the other side.

    Steps are compared with those behind the same `prefix`; of all texts, runs of white space count as one space.
    Raises InputError for a row that is no pair.
    """
    pairs = [_pair(row) for row in rows]
    there = set(pairs)
    seen: set[Pair] = set()
    reasons: list[str | None] = []
    for row, pair in zip(rows, pairs, strict=True):
        *asked, chosen, rejected = pair
        if chosen == rejected:
            reasons.append(EQUAL_SIDES)
        elif (*asked, rejected, chosen) in there:
            reasons.append(CONTRADICTED)
        elif pair in seen:
            reasons.append(REPEATED_PAIR)
        elif _is_small(row.extras.get(MARGIN), config.min_margin):
            reasons.append(SMALL_MARGIN)
        else:
            reasons.append(None)
            seen.add(pair)
    return Selection(tuple(reasons))


def _pair(row: Candidate) -> Pair:
    texts = [row.extras.get(PREFIX) or "", *(row.extras.get(name) for name in (CHOSEN, REJECTED))]
    if not all(isinstance(text, str) for text in texts):
        raise InputError(f"row {row.id} is no pair of texts: take source `preferences`, or rows that hold them")
    return (normalised(row.content), *(normalised(str(text)) for text in texts))  # type: ignore[return-value]


def _is_small(margin: Any, least: float | None) -> bool:
    return least is not None and not (isinstance(margin, int | float) and margin >= least)
