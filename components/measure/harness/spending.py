"""What k samples cost, for strategies that choose among samples already drawn."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from components.measure.harness.context import Spent
from components.measure.outcomes import ItemOutcomes


def spending(
    outcomes: Sequence[ItemOutcomes], ks: Sequence[int], accuracy: Sequence[Sequence[float]]
) -> Mapping[int, Spent]:
    """Return k -> accuracy, given as [P][K] (NaN: a prompt has fewer judged samples), and the tokens of k samples.

    k of a prompt's judged responses have k times their mean length on average.
    """
    means = [_mean_tokens(outcome) for outcome in outcomes]
    return {
        k: Spent(
            [None if math.isnan(row[place]) else row[place] for row in accuracy],
            [
                None if mean is None or math.isnan(row[place]) else k * mean
                for mean, row in zip(means, accuracy, strict=True)
            ],
        )
        for place, k in enumerate(ks)
    }


def _mean_tokens(outcome: ItemOutcomes) -> float | None:
    lengths = [outcome.lengths[row] for row in outcome.verified()]
    return sum(lengths) / len(lengths) if lengths else None
