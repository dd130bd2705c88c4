"""The view of policy filtration: how well rewards tell true scores, by what is kept of each prompt.

Shapes: P prompts, M responses of all prompts, B resamples.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np

from components.measure.filtration import Strategy, middle_weights, rank_weights
from components.measure.formulas.filtration import r_squared
from components.measure.harness.views import View, ViewTable
from components.measure.intervals import Bootstrap, Floats, Interval
from components.measure.metrics import metric_key
from components.measure.outcomes import ItemOutcomes

TEXT = (
    "A reward model ranks the ends of its range better than the middle. R^2 of a line through the mean reward and the "
    "mean true score of equally large bins says how far its scores can be learned from, by what is kept of a prompt; "
    "filter score_rank keeps the same."
)


@dataclass(frozen=True)
class Ranked:
    """The responses of a domain that have a reward and a verdict, prompt after prompt."""

    rewards: Floats
    """[M]"""
    truth: Floats
    """[M]"""
    owner: np.ndarray
    """[M] place of the prompt among those with any."""
    kept: Mapping[str, Floats]
    """Strategy -> [M], how often each is kept."""


def filtration_view(
    outcomes: Mapping[str, Sequence[ItemOutcomes]],
    rated: Mapping[str, Sequence[Sequence[float | None]]],
    bootstrap: Bootstrap,
    *,
    bins: int,
    power: float,
    rest: float,
) -> View:
    """Return the view of all domains from the rewards of each prompt's responses; what is undefined is left out."""
    metrics: dict[str, Interval | float] = {}
    rows: list[list[str | float | Interval | None]] = []
    names = ["all", "middle", *get_args(Strategy)]
    for domain, found in outcomes.items():
        ranked = ranked_of(found, rated[domain], power=power, rest=rest)
        numbers = {name: _interval(ranked, name, bootstrap, bins) for name in names}
        known = {name: value for name, value in numbers.items() if value is not None}
        metrics |= {metric_key(f"r2_{name}", domain): value for name, value in known.items()}
        rows.append([domain, *(known.get(name) for name in names)])
    return View(TEXT, metrics, [ViewTable("R^2 of reward and true score", ["domain", *names], rows)], [])


def ranked_of(
    outcomes: Sequence[ItemOutcomes], rated: Sequence[Sequence[float | None]], *, power: float, rest: float
) -> Ranked:
    """Return the judged and rated responses with the weights of every strategy; prompts with fewer than 3 have none."""
    rewards: list[float] = []
    truth: list[float] = []
    owner: list[int] = []
    kept: dict[str, list[float]] = {}
    for outcome, values in zip(outcomes, rated, strict=True):
        rows = [row for row in outcome.verified() if values[row] is not None]
        if len(rows) < 3:
            continue
        own = [float(values[row] or 0.0) for row in rows]
        owner += [owner[-1] + 1 if owner else 0] * len(rows)
        rewards += own
        truth += [outcome.verdicts[row].score for row in rows]
        kept.setdefault("all", []).extend([1.0] * len(rows))
        kept.setdefault("middle", []).extend(middle_weights(own))
        for strategy in get_args(Strategy):
            kept.setdefault(strategy, []).extend(rank_weights(own, strategy, power=power, rest=rest))
    arrays = {name: np.array(values) for name, values in kept.items()}
    return Ranked(np.array(rewards), np.array(truth), np.array(owner, dtype=np.int64), arrays)


def _interval(ranked: Ranked, name: str, bootstrap: Bootstrap, bins: int) -> Interval | None:
    """Return R^2 of a strategy with its interval over prompts; None where it is undefined."""
    if not len(ranked.owner):
        return None

    def statistic(weights: Floats) -> Floats:
        """Return [B] from the weights of prompts [B, P]."""
        own = weights[:, ranked.owner] * ranked.kept[name]
        return np.array([r_squared(ranked.rewards, ranked.truth, row, bins) for row in own])

    count = int(ranked.owner[-1]) + 1
    found = bootstrap.statistic(statistic, count, cells=len(ranked.owner))
    return found if math.isfinite(found.value) else None
