"""Responses in order of novelty, each against those before it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from components.contract.params import Params

if TYPE_CHECKING:
    from components.measure.harness.context import MeasureContext
    from components.measure.intervals import Floats
    from components.measure.outcomes import ItemOutcomes


class CoresetSettings(Params):
    """What novelty is measured on."""

    features: Literal["hidden", "words"] = "hidden"
    """hidden: the mean last hidden state over a response. words: how often it has each word, number and mark."""
    regularization: float = Field(default=0.01, gt=0)
    """Added to the diagonal of the covariance. Source: arXiv:2510.11686, released recipe: 0.01."""

    @property
    def reads_model(self) -> bool:
        """Return whether features are the model's."""
        return self.features == "hidden"

    @property
    def least_samples(self) -> int:
        """Return 2: one sample has no order, and leaves nothing to choose."""
        return 2


def coreset_orders(
    outcomes: Sequence[ItemOutcomes], context: MeasureContext, config: CoresetSettings
) -> list[list[int]]:
    """Return the judged responses of each prompt in greedy order of novelty."""
    from components.measure.formulas.spread import novelty_order

    kept = [list(outcome.verified()) for outcome in outcomes]
    features = _words(outcomes) if config.features == "words" else _hidden(outcomes, context)
    return [
        [rows[place] for place in novelty_order(matrix[rows], config.regularization)] if rows else []
        for rows, matrix in zip(kept, features, strict=True)
    ]


def _words(outcomes: Sequence[ItemOutcomes]) -> list[Floats]:
    import numpy as np

    from components.measure.formulas.diversity import pieces

    found = []
    for outcome in outcomes:
        split = [pieces(response) for response in outcome.responses]
        known = {word: place for place, word in enumerate(sorted({word for words in split for word in words}))}
        counts = np.zeros((len(split), max(1, len(known))))
        for row, words in enumerate(split):
            for word in words:
                counts[row, known[word]] += 1.0
        found.append(counts)
    return found


def _hidden(outcomes: Sequence[ItemOutcomes], context: MeasureContext) -> list[Floats]:
    import numpy as np

    from components.measure.features import mean_hidden

    assert context.sampler is not None
    pairs = [
        (outcome.item.prompt_with(outcome.turns[row] if outcome.turns else ()), response)
        for outcome in outcomes
        for row, response in enumerate(outcome.responses)
    ]
    rows = iter(mean_hidden(context.sampler.policy, pairs))
    return [np.stack([next(rows) for _ in outcome.responses]) for outcome in outcomes]
