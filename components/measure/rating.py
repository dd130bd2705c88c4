"""Scores of sampled responses by a reward model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from components.measure.outcomes import ItemOutcomes
    from components.modeling.serving.models import Asked, Rater


def rewards_of(model: Rater, outcomes: Sequence[ItemOutcomes]) -> list[list[float | None]]:
    """Return the score of each response of each prompt; None for one that cannot be scored."""
    found = iter(model.rate(asked_of(outcomes)))
    return [[next(found) for _ in outcome.responses] for outcome in outcomes]


def asked_of(outcomes: Sequence[ItemOutcomes]) -> list[tuple[Asked, str]]:
    """Return the task with each response of each prompt, one after another."""
    return [
        (outcome.item.prompt_with(outcome.turns[row]) if outcome.turns else outcome.item.task, response)
        for outcome in outcomes
        for row, response in enumerate(outcome.responses)
    ]
