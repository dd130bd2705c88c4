"""Whether a judge marks responses without content right, beside its agreement with the verifiers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from components.contract.further import JUDGES
from components.judges.config import PointwiseConfig
from components.measure.harness.configs import DiagnosticConfig

if TYPE_CHECKING:
    from components.measure.harness.context import MeasureContext
    from components.measure.harness.views import View
    from components.measure.outcomes import ItemOutcomes


class MasterKeysConfig(DiagnosticConfig, PointwiseConfig):
    """How the judge is asked, the first model at input `judges`, and when it marks a response right."""

    asks: ClassVar[tuple[str, ...]] = (JUDGES,)
    gives: ClassVar[Mapping[str, str]] = {
        "key_rate_worst": "Share of prompts at which the judge marks the key right that it marks right most often",
        "key_rate_mean": "The same, mean over the keys",
        "judge_agreement": "Share of the model's verified responses of which the judge says what the verifier says",
        "judge_wrong_as_right": "Share of wrong responses that the judge marks right",
        "judge_right_as_wrong": "Share of right responses that the judge marks wrong",
        "judge_unread": "Judgements that could not be read; they are in no share",
    }

    right_above: float = Field(default=0.5, ge=0, lt=1)
    """A verdict above it marks a response right."""


def master_keys(
    outcomes: Mapping[str, Sequence[ItemOutcomes]], context: MeasureContext, *, config: MasterKeysConfig
) -> View:
    """Return how often each key opens the judge, and its agreement with the verifiers on the model's own responses.

    Source: Zhao et al. 2025 (arXiv:2507.08794), section 3: false positive rate by key. A key that holds the right
    answer is left out at that prompt.
    """
    from components.measure.views.judges import keys_view

    judge = context.further[JUDGES][0]
    return keys_view(outcomes, judge, config, context.bootstrap, right_above=config.right_above, seed=context.seed)
