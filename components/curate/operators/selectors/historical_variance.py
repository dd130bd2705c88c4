"""1-shot RLVR's score of a prompt: the variance of its accuracy over a training."""

from __future__ import annotations

from collections.abc import Sequence

from components.curate.selection.choice import TOO_FEW_VISITS, Selection, keep_best
from components.curate.selection.config import RankConfig
from components.curate.selection.context import LEDGER, SelectionContext
from components.curation.candidate import Candidate


class HistoricalVarianceConfig(RankConfig):
    """How many rows are kept."""

    needs = (LEDGER,)


def historical_variance(
    rows: Sequence[Candidate], context: SelectionContext, *, config: HistoricalVarianceConfig
) -> Selection:
    """Keep the rows whose pass rate varied most over the visits of an rl stage, v = mean((s_e - mean s)^2).

    Rows with fewer than two visits go. Source: 1-shot RLVR (Wang et al. 2025, arXiv:2504.20571), section 2.
    """
    return keep_best([variance(context.rates(row.id)) for row in rows], config, missing=TOO_FEW_VISITS)


def variance(rates: Sequence[float]) -> float | None:
    """Return the population variance of pass rates; None for fewer than two."""
    if len(rates) < 2:
        return None
    mean = sum(rates) / len(rates)
    return sum((rate - mean) ** 2 for rate in rates) / len(rates)
