"""Learnability p (1 - p): what is solved sometimes, and not always, teaches most."""

from __future__ import annotations

from collections.abc import Sequence

from components.curate.selection.choice import Selection, keep_best
from components.curate.selection.config import RankConfig
from components.curate.selection.context import LEDGER, SelectionContext
from components.curation.candidate import Candidate


class LearnabilityConfig(RankConfig):
    """How many rows are kept."""

    needs = (LEDGER,)


def learnability(rows: Sequence[Candidate], context: SelectionContext, *, config: LearnabilityConfig) -> Selection:
    """Keep the rows with the largest p (1 - p), the variance of a verdict at pass rate p.

    Source: Foster and Foerster 2025 (arXiv:2502.12272), section 3.
    """
    totals = [context.total(row.id) for row in rows]
    return keep_best([None if total is None else total.value * (1 - total.value) for total in totals], config)
