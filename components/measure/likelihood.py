"""How likely responses are under other models, which score the plain text of each.

Models with other tokenizers are comparable by nats per byte of UTF-8; per token they are not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from components.measure.intervals import Bootstrap, Interval
from components.measure.metrics import metric_key
from components.measure.outcomes import ItemOutcomes

if TYPE_CHECKING:
    from components.modeling.serving.models import Scorer


def likelihood_metrics(
    scorers: Sequence[Scorer], outcomes: Mapping[str, Sequence[ItemOutcomes]], bootstrap: Bootstrap
) -> dict[str, Interval | float]:
    """Return likelihood_<n>_<domain> with intervals over prompts, n being the number of the scorer from 1.

    The value of a prompt is the log-probability of its responses, in nats, over their bytes; responses that a scorer
    cannot score are left out and counted as likelihood_<n>_unscored.
    """
    metrics: dict[str, Interval | float] = {}
    for number, scorer in enumerate(scorers, 1):
        unscored = 0
        for domain, found in outcomes.items():
            values, missed = _prompt_values(scorer, found)
            unscored += missed
            (interval,) = bootstrap.mean_intervals(values[:, None])
            if interval.n:
                metrics[metric_key(f"likelihood_{number}", domain)] = interval
        metrics[f"likelihood_{number}_unscored"] = float(unscored)
    return metrics


def _prompt_values(scorer: Scorer, outcomes: Sequence[ItemOutcomes]) -> tuple[np.ndarray, int]:
    """Return [P] nats per byte, NaN for a prompt without any, and how many responses could not be scored."""
    pairs = [
        (outcome.item.prompt_with(outcome.turns[index] if outcome.turns else ()), response)
        for outcome in outcomes
        for index, response in enumerate(outcome.responses)
    ]
    scored = iter(zip(pairs, scorer.score(pairs), strict=True))
    values, unscored = [], 0
    for outcome in outcomes:
        nats, size = 0.0, 0
        for (_, response), likelihood in (next(scored) for _ in outcome.responses):
            unscored += likelihood is None
            if likelihood is not None:
                nats, size = nats + likelihood.logprob, size + len(response.encode())
        values.append(nats / size if size else math.nan)
    return np.array(values), unscored
