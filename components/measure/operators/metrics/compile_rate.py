"""Share of responses that could be run at all, whatever their tests said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from components.measure.harness.configs import MetricConfig

if TYPE_CHECKING:
    from components.measure.harness.context import MeasureContext
    from components.measure.outcomes import ItemOutcomes


class CompileRateConfig(MetricConfig):
    """No settings of its own."""

    gives: ClassVar[Mapping[str, str]] = {
        "compile_rate": "Share of judged responses that compile: right, or graded by what they compute"
    }


def compile_rate(
    outcomes: Sequence[ItemOutcomes], context: MeasureContext, *, config: CompileRateConfig
) -> Mapping[str, list[float | None]]:
    """Return the share of each prompt's judged responses that are right or have a grade.

    Verifiers that run what was written (circuits, bench_points, programs) grade it; a text that they cannot read has no
    grade. VeriPrefer: a gain must not be one of the syntax alone.
    """
    return {"compile_rate": [_of_prompt(outcome) for outcome in outcomes]}


def _of_prompt(outcome: ItemOutcomes) -> float | None:
    judged = [outcome.verdicts[row] for row in outcome.verified()]
    return sum(one.right or one.graded is not None for one in judged) / len(judged) if judged else None
