"""Pairs of a judge that was shown each side first equally often where it chose it: its bias by position cancels."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pydantic import Field

from components.contract.errors import InputError
from components.contract.terminal import short_line
from components.curate.selection.choice import Selection
from components.curate.selection.config import SelectorConfig
from components.curate.selection.context import SelectionContext
from components.curation.candidate import Candidate
from components.tasks.row_kinds.preferences import CHOSEN, REJECTED, SHOWN_FIRST

POSITION_SURPLUS = "position_surplus"
SIDES = (CHOSEN, REJECTED)
MOST_SHOWN = 60


class BalancedPositionsConfig(SelectorConfig):
    """How much bias is left."""

    max_share: float = Field(default=0.5, ge=0.5, lt=1)
    """Largest share of a domain's pairs whose judge was shown the chosen side first, and of those whose judge was shown
    it second. 0.5: as many of either. Reconstructed."""


def balanced_positions(
    rows: Sequence[Candidate], context: SelectionContext, *, config: BalancedPositionsConfig
) -> Selection:
    """Drop pairs, the later ones of a domain, whose chosen side stood where the judge chose too often.

    Column `shown_first` says which side its judge was shown first; pairs without it are kept. A judge that looks at the
    position alone leaves no pair. Raises InputError where no pair has the column, and for another value in it.

    Source: Zheng et al. 2023 (arXiv:2306.05685), section 3.3: judges prefer what they are shown first.
    """
    members: dict[tuple[str, str], list[int]] = {}
    for at, row in enumerate(rows):
        if (side := _side(row)) is not None:
            members.setdefault((row.domain, side), []).append(at)
    if rows and not members:
        raise InputError(f"selector balanced_positions: no pair has the column `{SHOWN_FIRST}`")
    reasons: list[str | None] = [None] * len(rows)
    for (domain, side), found in members.items():
        other = len(members.get((domain, SIDES[side == CHOSEN]), ()))
        for at in found[_most(other, config.max_share) :]:
            reasons[at] = POSITION_SURPLUS
    return Selection(tuple(reasons))


def _most(other: int, share: float) -> int:
    """Return how many pairs may stand beside `other` ones of the other side, so that they are at most `share` of all.

    Where they are fewer than these, none of them is too many.
    """
    return math.floor(other * share / (1 - share) + 1e-9)


def _side(row: Candidate) -> str | None:
    side = row.extras.get(SHOWN_FIRST)
    if side is not None and side not in SIDES:
        found = f"row {row.id}: {SHOWN_FIRST} is {short_line(repr(side), MOST_SHOWN)}"
        raise InputError(f"selector balanced_positions: {found}, expected {CHOSEN} or {REJECTED}")
    return side
