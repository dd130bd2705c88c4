"""Refusals and wrong answers told apart: saying that one does not know is neither right nor a false claim."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import AfterValidator

from components.measure.harness.configs import MetricConfig
from components.tasks.verifiers.factual import REFUSALS, check_refusals, is_refusal

if TYPE_CHECKING:
    from components.measure.harness.context import MeasureContext
    from components.measure.outcomes import ItemOutcomes


class RefusalConfig(MetricConfig):
    """What counts as a refusal."""

    gives: ClassVar[Mapping[str, str]] = {
        "refusal_rate": "Share of the judged responses that refuse",
        "wrong_rate": "Share of the judged responses that are wrong and do not refuse",
    }
    refusals: Annotated[tuple[str, ...], AfterValidator(check_refusals)] = REFUSALS
    """Answers that say that the policy does not know; case and punctuation at their ends do not count."""


def refusal(
    outcomes: Sequence[ItemOutcomes], context: MeasureContext, *, config: RefusalConfig
) -> Mapping[str, list[float | None]]:
    """Return both shares of each prompt; with the share of right ones they make 1. A right answer is no refusal."""
    shares = [_of_prompt(outcome, config.refusals) for outcome in outcomes]
    return {"refusal_rate": [refused for refused, _ in shares], "wrong_rate": [wrong for _, wrong in shares]}


def _of_prompt(outcome: ItemOutcomes, refusals: Sequence[str]) -> tuple[float | None, float | None]:
    rows = list(outcome.verified())
    if not rows:
        return None, None
    missed = [row for row in rows if not outcome.verdicts[row].right]
    refused = sum(is_refusal(outcome.responses[row], refusals) for row in missed)
    return refused / len(rows), (len(missed) - refused) / len(rows)
