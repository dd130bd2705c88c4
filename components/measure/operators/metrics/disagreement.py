"""How far the heads of a reward ensemble are apart on a model's responses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from components.contract.further import SCORERS
from components.contract.heads import Head
from components.measure.harness.configs import MetricConfig

if TYPE_CHECKING:
    from components.measure.harness.context import MeasureContext
    from components.measure.outcomes import ItemOutcomes


class DisagreementConfig(MetricConfig):
    """The ensemble is the first model at input `scorers`, trained with scorer_loss gaussian_ensemble."""

    asks: ClassVar[tuple[str, ...]] = (SCORERS,)
    asks_heads: ClassVar[frozenset[Head]] = frozenset({Head.SCORE})
    gives: ClassVar[Mapping[str, str]] = {
        "disagreement": "Standard deviation of the means that a reward ensemble's heads give a response",
    }


def disagreement(
    outcomes: Sequence[ItemOutcomes], context: MeasureContext, *, config: DisagreementConfig
) -> Mapping[str, Sequence[float | None]]:
    """Return the mean over each prompt's responses of the heads' standard deviation, unscored ones left out.

    Source: Yan et al. 2024, Reward-Robust RLHF in LLMs (arXiv:2409.15360): heads differ most where a reward is gamed.
    """
    from statistics import fmean, pstdev

    from components.measure.rating import asked_of

    told = iter(context.further[SCORERS][0].opinions(asked_of(outcomes)))
    found = []
    for outcome in outcomes:
        heard = [next(told) for _ in outcome.responses]
        known = [pstdev(one.means) for one in heard if one is not None]
        found.append(fmean(known) if known else None)
    return {"disagreement": found}
