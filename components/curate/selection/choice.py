"""The decision of a selector: why each row goes, and its score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from components.curate.selection.config import RankConfig

NOT_IN_LEDGER, TOO_FEW_VISITS, NOT_SELECTED = "not_in_ledger", "too_few_visits", "not_selected"


@dataclass(frozen=True)
class Selection:
    """One entry for each row."""

    reasons: tuple[str | None, ...]
    """Why a row is dropped; None keeps it."""
    scores: tuple[float | None, ...] = ()
    """Scores of the rows, None where there is none; empty for selectors without."""
    weigh: bool = False
    """Whether scores become weights of the kept rows."""


def keep_best(scores: Sequence[float | None], config: RankConfig, *, missing: str = NOT_IN_LEDGER) -> Selection:
    """Keep the rows with the highest scores, the earlier of equals; rows without a score go as `missing`."""
    ranked = sorted((index for index, score in enumerate(scores) if score is not None), key=lambda i: -(scores[i] or 0))
    kept = set(ranked[: config.most(len(scores))])
    reasons = tuple(
        missing if score is None else None if index in kept else NOT_SELECTED for index, score in enumerate(scores)
    )
    return Selection(reasons, tuple(scores), config.weigh)
