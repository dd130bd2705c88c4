"""Guru's difficulty filter by two models: what the weak one still fails and the strong one sometimes solves."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from components.curate.selection.choice import NOT_IN_LEDGER, Selection
from components.curate.selection.config import SelectorConfig
from components.curate.selection.context import LEDGER, SelectionContext
from components.curation.candidate import Candidate
from components.measure.history import latest_total


class TwoModelBandConfig(SelectorConfig):
    """Which ledgers are whose, and the two ends of the band."""

    needs = (LEDGER,)

    weak: int = Field(default=0, ge=0)
    """Position of the weak model's ledger among those at input `ledger`, from 0."""
    strong: int = Field(default=1, ge=0)
    """Position of the strong model's."""
    weak_drop_at: float = Field(default=15 / 16, ge=0, le=1)
    """Rows that the weak model passes this often, or more often, go: they are too easy."""
    strong_drop_at: float = Field(default=0.0, ge=0, le=1)
    """Rows that the strong model passes this often, or less often, go: they are noisy or impossible."""


def two_model_band(rows: Sequence[Candidate], context: SelectionContext, *, config: TwoModelBandConfig) -> Selection:
    """Keep rows below `weak_drop_at` for the weak model and above `strong_drop_at` for the strong one.

    Source: Guru (Cheng et al. 2025, arXiv:2506.14965); its thresholds, of 16 samples, are reconstructed.
    """
    weak, strong = context.ledger(config.weak, "weak"), context.ledger(config.strong, "strong")

    def reason(row: Candidate) -> str | None:
        found = latest_total([weak], row.id), latest_total([strong], row.id)
        if found[0] is None or found[1] is None:
            return NOT_IN_LEDGER
        if found[0].value >= config.weak_drop_at:
            return "too_easy_for_weak"
        return "too_hard_for_strong" if found[1].value <= config.strong_drop_at else None

    return Selection(tuple(map(reason, rows)))
