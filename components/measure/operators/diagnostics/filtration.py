"""Which responses of each prompt to learn from, so that a reward model's scores tell the true ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from components.contract.further import SCORERS
from components.contract.heads import SCORES, Head
from components.measure.harness.configs import DiagnosticConfig

if TYPE_CHECKING:
    from components.measure.harness.context import MeasureContext
    from components.measure.harness.views import View
    from components.measure.outcomes import ItemOutcomes


class FiltrationConfig(DiagnosticConfig):
    """How weights and bins are made; the scorer is the first model at input `scorers`."""

    asks: ClassVar[tuple[str, ...]] = (SCORERS,)
    asks_heads: ClassVar[frozenset[Head]] = SCORES
    gives: ClassVar[Mapping[str, str]] = {
        "r2_all": "R^2 of mean reward and mean true score over bins by reward, of all responses",
        "r2_middle": "The same of those between each prompt's best and worst by reward",
        "r2_bon": "The same of each prompt's best response",
        "r2_br": "The same of the best and a random one of the rest",
        "r2_bw": "The same of the best and the worst",
        "r2_pow": "The same weighed by |reward|^power",
        "r2_max_min": "The same of all with the highest or the lowest reward",
        "r2_max_random": "The same with weight 1 for the highest reward and `rest` for others",
    }
    bins: int = Field(default=10, ge=3, le=100)
    """Bins of equally many responses. Source: Shen and Zhang 2024 (arXiv:2409.06957): responses are put into groups."""
    power: float = Field(default=2.0, gt=0)
    """Of weights pow."""
    rest: float = Field(default=0.4, ge=0, le=1)
    """Of weights max_random."""

    @property
    def least_samples(self) -> int:
        """Return 3: a prompt needs a best response, a worst one and one between them."""
        return 3


def filtration(
    outcomes: Mapping[str, Sequence[ItemOutcomes]], context: MeasureContext, *, config: FiltrationConfig
) -> View:
    """Return R^2 of learned and true scores by strategy and domain, as filter `score_rank` keeps responses.

    The true score is the verdict's. The strategy with the highest R^2 is the one to train with. Responses without a
    verdict or a reward are left out. Intervals resample prompts.

    Source: Shen and Zhang 2024, Policy Filtration for RLHF (arXiv:2409.06957): R^2 chooses the strategy.
    """
    from components.measure.rating import rewards_of
    from components.measure.views.filtration import filtration_view

    model = context.further[SCORERS][0]
    rated = {domain: rewards_of(model, found) for domain, found in outcomes.items()}
    return filtration_view(outcomes, rated, context.bootstrap, bins=config.bins, power=config.power, rest=config.rest)
