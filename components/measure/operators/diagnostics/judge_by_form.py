"""Whether a judge of answers agrees with the verifiers on every form in which an answer is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from components.contract.further import JUDGES
from components.judges.config import PointwiseConfig
from components.measure.harness.configs import DiagnosticConfig
from components.tasks.domains.worlds.fractions import FORMS

if TYPE_CHECKING:
    from components.measure.harness.context import MeasureContext
    from components.measure.harness.views import View
    from components.measure.outcomes import ItemOutcomes


class JudgeByFormConfig(DiagnosticConfig, PointwiseConfig):
    """How the judge is asked, the first model at input `judges`, and when it marks an answer right."""

    asks: ClassVar[tuple[str, ...]] = (JUDGES,)
    gives: ClassVar[Mapping[str, str]] = {
        **{
            f"agreement_{form}": f"Share of {form} answers of which the judge says what the verifier says"
            for form in FORMS
        },
        "agreement_other": "The same, of answers that are no fraction, decimal or percentage",
        **{f"share_{form}": f"Share of answers that are written {form}" for form in FORMS},
        "share_other": "Share of answers that are no fraction, decimal or percentage",
        "form_unread": "Judgements that could not be read; they are in no agreement",
    }

    right_above: float = Field(default=0.5, ge=0, lt=1)
    """A verdict above it marks an answer right."""


def judge_by_form(
    outcomes: Mapping[str, Sequence[ItemOutcomes]], context: MeasureContext, *, config: JudgeByFormConfig
) -> View:
    """Return the judge's agreement with the verifiers by the form of the answer: 5/8, 10/16, 0.625, 62.5%.

    The judge reads the final answer alone, as reward `judged_answer` shows it; answers are the evaluated model's.
    Source: Ma et al. 2025, General-Reasoner (arXiv:2505.14652): agreement of the verifier by type of answer.
    """
    from components.measure.views.judge_forms import forms_view

    judge, above = context.further[JUDGES][0], config.right_above
    return forms_view(outcomes, judge, config, context.bootstrap, right_above=above, seed=context.seed)
