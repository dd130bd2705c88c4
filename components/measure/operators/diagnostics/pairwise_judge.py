"""How far a judge of pairs can be trusted: agreement with the verifiers, bias by position, self-consistency."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from components.contract.further import JUDGES
from components.judges.config import PairwiseConfig
from components.measure.harness.configs import DiagnosticConfig

if TYPE_CHECKING:
    from components.measure.harness.context import MeasureContext
    from components.measure.harness.views import View
    from components.measure.outcomes import ItemOutcomes


class PairwiseJudgeConfig(DiagnosticConfig, PairwiseConfig):
    """How the judge is asked, the first model at input `judges`, and about how many pairs."""

    asks: ClassVar[tuple[str, ...]] = (JUDGES,)
    gives: ClassVar[Mapping[str, str]] = {
        "pair_agreement": "Share of pairs whose right response the judge prefers to the wrong one, a tie half",
        "pair_steady": "Share of pairs of which the judge says the same in both orders",
        "pair_first_bias": "By how much it prefers what is shown first, from -0.5 to 0.5",
        "pair_repeats": "Share of pairs of which it says the same each time that it is asked; with repeats",
        "pair_unread": "Pairs of which a verdict could not be read; they are in no share",
        "num_pairs": "Pairs of a right and a wrong response to one prompt",
    }

    pairs: int = Field(default=4, ge=1, le=1024)
    """Most pairs of one prompt."""
    repeats: int = Field(default=1, ge=1, le=64)
    """How often each pair is asked about, with seeds of their own; more than once needs a temperature above 0."""

    @property
    def least_samples(self) -> int:
        """Return 2: a pair has a right and a wrong response."""
        return 2


def pairwise_judge(
    outcomes: Mapping[str, Sequence[ItemOutcomes]], context: MeasureContext, *, config: PairwiseJudgeConfig
) -> View:
    """Return agreement, bias and self-consistency on pairs of a right and a wrong response to one prompt.

    Source: Zheng et al. 2023 (arXiv:2306.05685), section 4.1 (agreement) and 3.3 (position bias).
    """
    from components.measure.views.judges import pairs_view

    judge = context.further[JUDGES][0]
    options = {"pairs": config.pairs, "repeats": config.repeats, "seed": context.seed}
    return pairs_view(outcomes, judge, config, context.bootstrap, **options)
