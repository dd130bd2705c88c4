"""How often a judge is right about responses whose worth is known; one that cannot be read is not right."""

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


class JudgeBenchConfig(DiagnosticConfig, PointwiseConfig):
    """How the judge is asked, the first model at input `judges`, and when it marks a response right."""

    asks: ClassVar[tuple[str, ...]] = (JUDGES,)
    gives: ClassVar[Mapping[str, str]] = {
        "judge_pass_at_1": "Mean of the two below: always one verdict, or chance, gives a half",
        "judge_right_of_right": "Share of right responses that the judge marks right",
        "judge_right_of_wrong": "Share of wrong responses that the judge marks wrong",
        "judge_unparsed": "Share of judgements that could not be read; they are in both shares above, as not right",
    }

    right_above: float = Field(default=0.5, ge=0, lt=1)
    """A verdict above it marks a response right."""


def judge_bench(
    outcomes: Mapping[str, Sequence[ItemOutcomes]], context: MeasureContext, *, config: JudgeBenchConfig
) -> View:
    """Return how often the judge gives the verifier's verdict on the model's own responses, right and wrong ones alike.

    Prompts weigh alike in each share; where all responses are right, or none, `judge_pass_at_1` is the one share.
    What cannot be read counts as not right, other than in `judge_agreement` of `master_keys`: this can be a gate.
    Source: Agnihotri 2025 (arXiv:2506.05748): accuracy on a benchmark before a judge is a reward.
    """
    from components.measure.views.judge_bench import bench_view

    judge, above = context.further[JUDGES][0], config.right_above
    return bench_view(outcomes, judge, config, context.bootstrap, right_above=above, seed=context.seed)
