"""Claims that count only if all variants of them are judged right, so that guessing does not pay."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from components.measure.harness.configs import MetricConfig

if TYPE_CHECKING:
    from components.measure.harness.context import MeasureContext
    from components.measure.outcomes import ItemOutcomes


class AllOfVariantsConfig(MetricConfig):
    """Which verdict may be given too often."""

    gives: ClassVar[Mapping[str, str]] = {
        "all_of_variants": "Chance that one response to each variant of a group is right on all of them",
        "verdict_bias": "Share of the judged responses that give the verdict, less that of the variants it is right on",
    }
    verdict: str = Field(default="true", min_length=1)
    """The answer whose share is watched; case does not count."""


def all_of_variants(
    outcomes: Sequence[ItemOutcomes], context: MeasureContext, *, config: AllOfVariantsConfig
) -> Mapping[str, list[float | None]]:
    """Return the product of the variants' pass rates at the first of each group, None at the others.

    Rows name their group in `data["group"]` and its size in `data["num_variants"]`; a row without a group is one by
    itself, and a group of which a variant is missing, or was never judged, has no value. Draws for different variants
    are independent, so the product is unbiased; a guess between two verdicts has 0.5^m.
    Source: DeepTheorem (2025), evaluation: a theorem counts if all its variants do.
    """
    groups: dict[str, list[int]] = {}
    for row, outcome in enumerate(outcomes):
        groups.setdefault(_group_of(outcome), []).append(row)
    passed: list[float | None] = [None] * len(outcomes)
    for rows in groups.values():
        rates = [rate for row in rows if (rate := outcomes[row].pass_rate) is not None]
        if len(rates) == len(rows) == outcomes[rows[0]].item.data.get("num_variants", 1):
            passed[rows[0]] = math.prod(rates)
    return {"all_of_variants": passed, "verdict_bias": [_bias(outcome, config.verdict) for outcome in outcomes]}


def _group_of(outcome: ItemOutcomes) -> str:
    return str(outcome.item.data.get("group", f"item {outcome.item.id}"))


def _bias(outcome: ItemOutcomes, verdict: str) -> float | None:
    answers, _ = outcome.verified_answers
    if not answers:
        return None
    given = sum(answer is not None and answer.casefold() == verdict.casefold() for answer in answers) / len(answers)
    return given - (outcome.item.answer.casefold() == verdict.casefold())
