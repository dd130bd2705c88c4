"""Whether an answer stays the same option when the options stand in another order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from components.measure.harness.configs import MetricConfig

if TYPE_CHECKING:
    from components.measure.harness.context import MeasureContext
    from components.measure.outcomes import ItemOutcomes


class ShuffleConsistencyConfig(MetricConfig):
    """How a response is asked again."""

    gives: ClassVar[Mapping[str, str]] = {
        "consistency": "Share of answers that are the same option with the options in another order",
        "shuffled_right": "Share of right ones among the answers in another order",
        "consistency_asked": "Share of judged responses that chose an option and were asked again",
    }

    max_new_tokens: int = Field(default=8, ge=1)
    """Longest second answer, which is greedy."""

    @property
    def reads_model(self) -> bool:
        """Return True: the model answers again."""
        return True


def shuffle_consistency(
    outcomes: Sequence[ItemOutcomes], context: MeasureContext, *, config: ShuffleConsistencyConfig
) -> Mapping[str, list[float | None]]:
    """Return the three shares by prompt; the thought is kept, its letters mapped, and the answer drawn again.

    Source: ACRE (catalogue 70). A response that chooses no option, and one to an item without readable options, is
    counted in `consistency_asked` and in nothing else.
    """
    from components.measure.reanswer import reanswered

    return reanswered(outcomes, context, max_new_tokens=config.max_new_tokens)
