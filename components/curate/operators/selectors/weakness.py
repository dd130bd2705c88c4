"""SwS's weakness test: prompts that a training never came to solve, and solved less and less."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from components.curate.selection.choice import TOO_FEW_VISITS, Selection
from components.curate.selection.config import SelectorConfig
from components.curate.selection.context import LEDGER, SelectionContext
from components.curation.candidate import Candidate


class WeaknessConfig(SelectorConfig):
    """What counts as weak."""

    needs = (LEDGER,)

    max_rate: float = Field(default=0.5, gt=0, le=1)
    """A weak row's pass rate is below this at every visit."""
    slope_below: float = 0.0
    """A weak row's pass rate has a slope below this, per visit."""


def weakness(rows: Sequence[Candidate], context: SelectionContext, *, config: WeaknessConfig) -> Selection:
    """Keep rows with max_t a_t < max_rate and a least-squares slope of a_t over the visits t below slope_below.

    Rows with fewer than two visits have no slope and go. The score is the slope. Source: SwS (Liang et al. 2025,
    arXiv:2506.08989), section 2.
    """
    histories = [context.rates(row.id) for row in rows]
    slopes = [slope(rates) for rates in histories]

    def reason(rates: Sequence[float], found: float | None) -> str | None:
        if found is None:
            return TOO_FEW_VISITS
        return None if max(rates) < config.max_rate and found < config.slope_below else "not_weak"

    return Selection(tuple(map(reason, histories, slopes)), tuple(slopes))


def slope(rates: Sequence[float]) -> float | None:
    """Return the least-squares slope of pass rates over their position; None for fewer than two."""
    if len(rates) < 2:
        return None
    middle, mean = (len(rates) - 1) / 2, sum(rates) / len(rates)
    moment = sum((position - middle) * (rate - mean) for position, rate in enumerate(rates))
    return moment / sum((position - middle) ** 2 for position in range(len(rates)))
