"""How well a judge that is a list of principles tells good responses from bad ones that try to pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from components.measure.harness.configs import DiagnosticConfig

if TYPE_CHECKING:
    from components.measure.harness.context import MeasureContext
    from components.measure.harness.views import View
    from components.measure.outcomes import ItemOutcomes


class PrinciplesAucConfig(DiagnosticConfig):
    """No settings of its own: pairs at input `pairs` hold the list, as generator judge_attacks writes them."""

    needs: ClassVar[tuple[str, ...]] = ("pairs",)
    gives: ClassVar[Mapping[str, str]] = {
        "judge_auc": "Chance that a good response has a higher verdict than a bad one, ties half",
        "judge_passes_good": "Share of good responses that the list passes",
        "judge_passes_bad": "Share of bad responses that it passes",
        "num_principles": "Principles of the list",
    }


def principles_auc(
    outcomes: Mapping[str, Sequence[ItemOutcomes]], context: MeasureContext, *, config: PrinciplesAucConfig
) -> View:
    """Return the four numbers of each domain of the pairs, whatever the measured model answers.

    A verdict is 1 for a response that holds to every principle of `data["rubric"]`, else 0, so the AUC is the mean of
    the share of good responses that pass and the share of bad ones that do not. Intervals resample prompts.

    Source: Wei et al. 2025 (arXiv:2508.21476), measures a judge's agreement with
    labels on held-out responses.
    """
    from components.measure.views.principles import principles_view

    return principles_view(context.pairs, context.bootstrap)
