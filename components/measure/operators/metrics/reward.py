"""What a reward model says of a model's responses: the proxy, beside what verifiers say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from components.contract.further import SCORERS
from components.contract.heads import SCORES, Head
from components.measure.harness.configs import MetricConfig

if TYPE_CHECKING:
    from components.measure.harness.context import MeasureContext
    from components.measure.outcomes import ItemOutcomes


class RewardMetricConfig(MetricConfig):
    """The scorer is the first model at input `scorers`."""

    asks: ClassVar[tuple[str, ...]] = (SCORERS,)
    asks_heads: ClassVar[frozenset[Head]] = SCORES
    gives: ClassVar[Mapping[str, str]] = {
        "reward": "Mean score of a prompt's responses by the reward model at input scorers",
    }


def reward(
    outcomes: Sequence[ItemOutcomes], context: MeasureContext, *, config: RewardMetricConfig
) -> Mapping[str, Sequence[float | None]]:
    """Return the mean score of each prompt's responses; those that cannot be scored do not count."""
    from components.measure.rating import rewards_of

    found = []
    for rewards in rewards_of(context.further[SCORERS][0], outcomes):
        known = [value for value in rewards if value is not None]
        found.append(sum(known) / len(known) if known else None)
    return {"reward": found}
