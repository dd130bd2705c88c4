"""Scores of responses without a verdict: what best-of-n chooses by, and what votes weigh."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from components.contract.further import SCORERS
from components.measure.confidence import ConfidenceSettings

if TYPE_CHECKING:
    from components.measure.harness.context import MeasureContext
    from components.measure.outcomes import ItemOutcomes

By = Literal["probability", "mean_probability", "confidence", "scorer", "reserved"]


class ScoreSettings(ConfidenceSettings):
    """What a response is scored by."""

    by: By = "confidence"
    """confidence: what it states in its tag. probability: of the whole response under the policy that drew it.
    mean_probability: the geometric mean over its tokens. scorer: the same under the first model at input `scorers`.
    reserved: of a token that no text holds, behind the response's end, where LaSeR stores its judgement."""
    token: str | None = None
    """The reserved token, by name; null for the first that neither texts nor the chat template use, as in training."""
    strength: float = Field(default=0.1, gt=0)
    """beta_v of the reserved score: of a rise of the log-probability by one nat; read with `reference`."""
    reference: float | None = None
    """c_ref: the log-probability that scores 0, `self_reference` of the training. The score is then the self-reward
    strength * (log p - reference), cut to [0, 1]; null: the probability itself, in the same order."""

    @property
    def asked(self) -> tuple[str, ...]:
        """Return the input ports with further models that these settings require."""
        return (SCORERS,) if self.by == "scorer" else ()


def response_scores(
    outcomes: Sequence[ItemOutcomes], context: MeasureContext, settings: ScoreSettings
) -> list[list[float]]:
    """Return the score of each response of each prompt, in [0, 1]; 0 for one that has none."""
    if settings.by == "scorer":
        return _by_scorer(outcomes, context)
    if settings.by == "reserved":
        return _by_reserved(outcomes, context, settings)
    return [[_score(outcome, row, settings) for row in range(outcome.num_samples)] for outcome in outcomes]


def _score(outcome: ItemOutcomes, row: int, settings: ScoreSettings) -> float:
    if settings.by == "confidence":
        return settings.read(outcome.responses[row]).value or 0.0
    tokens = outcome.lengths[row] if settings.by == "mean_probability" else 1
    return math.exp(min(0.0, outcome.logprobs[row] / max(1, tokens)))


def _by_reserved(
    outcomes: Sequence[ItemOutcomes], context: MeasureContext, settings: ScoreSettings
) -> list[list[float]]:
    from components.measure.reserved import reserved_logprobs

    assert context.sampler is not None

    def score(logprob: float | None) -> float:
        if logprob is None:
            return 0.0
        if settings.reference is None:
            return math.exp(min(0.0, logprob))
        return min(1.0, max(0.0, settings.strength * (logprob - settings.reference)))

    found = reserved_logprobs(context.sampler.policy, outcomes, settings.token)
    return [[score(logprob) for logprob in here] for here in found]


def _by_scorer(outcomes: Sequence[ItemOutcomes], context: MeasureContext) -> list[list[float]]:
    pairs = [
        (outcome.item.prompt_with(outcome.turns[row] if outcome.turns else ()), response)
        for outcome in outcomes
        for row, response in enumerate(outcome.responses)
    ]
    found = iter(context.further[SCORERS][0].score(pairs))
    scores = []
    for outcome in outcomes:
        here = [next(found) for _ in outcome.responses]
        scores.append([0.0 if one is None else math.exp(min(0.0, one.mean)) for one in here])
    return scores
