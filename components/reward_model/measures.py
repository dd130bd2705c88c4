"""How good a reward model's scores are on rows that it was not trained on, with intervals over tasks.

Shapes: N pairs, responses or steps, C tasks, B resamples.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from components.measure.formulas.ranking import Statistic, auroc, calibration_error, equal_width, weighted_mean
from components.measure.intervals import Bootstrap, Floats, Interval
from components.measure.metrics import metric_key
from components.reward_model.rows import Unit
from components.tasks.row_kinds.reading import Kind

NUM_BINS = 10
MOST_PAIRED = 64
"""Rows of one task that are compared with one another."""
Measures = dict[str, Interval]


@dataclass(frozen=True)
class Predictions:
    """Chances that the model gives, and what came true."""

    chance: Floats
    """[N] in [0, 1]."""
    true: Floats
    """[N], 0 or 1."""
    task: np.ndarray
    """[N] number of the task."""


@dataclass(frozen=True)
class Found:
    """All measures of a reward model, and the predictions that its calibration is about, if there are some."""

    measures: Measures
    predictions: Predictions | None


def measure(
    units: Sequence[Unit],
    rewards: Sequence[Sequence[float]],
    kind: Kind,
    bootstrap: Bootstrap,
    *,
    chances: bool = False,
    summed: bool = False,
) -> Found:
    """Return the measures of rows of a kind from the rewards at their places.

    `chances`: whether the reward of a labelled response or of a step, or the difference of a pair, tells how likely it
    is to be good. `summed`: the rewards of steps add up to the outcome, the label of the last one, and only their sum
    is measured.
    """
    if summed:
        units = [replace(unit, targets=unit.targets[-1:]) for unit in units]
        rewards, kind = [[math.fsum(values)] for values in rewards], "labelled"
    numbers = {task: number for number, task in enumerate(sorted({unit.task for unit in units}))}
    tasks = np.array([numbers[unit.task] for unit in units])
    if kind == "preferences":
        return _of_pairs(units, np.array(rewards, dtype=np.float64), tasks, bootstrap, chances=chances)
    if kind == "stepwise":
        return _of_steps(units, rewards, tasks, bootstrap, chances=chances)
    return _of_labels(units, np.array([values[-1] for values in rewards]), tasks, bootstrap, chances=chances)


def _of_pairs(
    units: Sequence[Unit], rewards: Floats, tasks: np.ndarray, bootstrap: Bootstrap, *, chances: bool
) -> Found:
    """Return the measures of pairs, whose rewards are [N, 2]."""
    margin = rewards[:, 0] - rewards[:, 1]
    won = np.where(margin == 0, 0.5, margin > 0)
    sides, both = np.r_[rewards[:, 0], rewards[:, 1]], np.r_[np.ones(len(units)), np.zeros(len(units))]
    found = {
        "pair_accuracy": _over(weighted_mean(won), tasks, bootstrap),
        "margin_mean": _over(weighted_mean(margin), tasks, bootstrap),
        "auroc": _over(auroc(sides, both), np.r_[tasks, tasks], bootstrap),
    }
    domains = sorted({unit.domain for unit in units})
    for domain in domains if len(domains) > 1 else ():
        inside = np.array([unit.domain == domain for unit in units])
        found[metric_key("pair_accuracy", domain)] = _over(weighted_mean(won[inside]), tasks[inside], bootstrap)
    if not chances:
        return Found(found, None)
    predictions = Predictions(_sigmoid(np.abs(margin)), won, tasks)
    return Found(found | _calibration(predictions, bootstrap), predictions)


def _of_labels(
    units: Sequence[Unit], rewards: Floats, tasks: np.ndarray, bootstrap: Bootstrap, *, chances: bool
) -> Found:
    """Return the measures of labelled responses; pairs are those of a task whose labels differ."""
    targets = np.array([unit.targets[0] for unit in units])
    found: Measures = {}
    pairs = list(_pairs(targets, tasks))
    if pairs:
        better, worse = np.array(pairs).T
        margin = rewards[better] - rewards[worse]
        won = np.where(margin == 0, 0.5, margin > 0)
        found["pair_accuracy"] = _over(weighted_mean(won), tasks[better], bootstrap)
        found["margin_mean"] = _over(weighted_mean(margin), tasks[better], bootstrap)
    return _with_classes(found, rewards, targets, tasks, bootstrap, chance=_sigmoid(rewards) if chances else None)


def _of_steps(
    units: Sequence[Unit],
    rewards: Sequence[Sequence[float]],
    tasks: np.ndarray,
    bootstrap: Bootstrap,
    *,
    chances: bool,
) -> Found:
    """Return the measures of steps, whose rewards are chances where the loss classifies them."""
    values = np.array([value for found in rewards for value in found])
    targets = np.array([target for unit in units for target in unit.targets])
    task = np.repeat(tasks, [len(found) for found in rewards])
    return _with_classes({}, values, targets, task, bootstrap, chance=values if chances else None)


def _with_classes(
    found: Measures, rewards: Floats, targets: Floats, tasks: np.ndarray, bootstrap: Bootstrap, *, chance: Floats | None
) -> Found:
    """Add what good and bad ones tell, or, where targets are graded, how far scores are from them."""
    graded = bool(((targets != 0) & (targets != 1)).any())
    if not graded:
        found["auroc"] = _over(auroc(rewards, targets), tasks, bootstrap)
    if chance is None:
        found["squared_error"] = _over(weighted_mean((rewards - targets) ** 2), tasks, bootstrap)
        return Found(found, None)
    if graded:
        found["squared_error"] = _over(weighted_mean((chance - targets) ** 2), tasks, bootstrap)
        return Found(found, None)
    found["accuracy"] = _over(weighted_mean((chance > 0.5) == (targets > 0.5)), tasks, bootstrap)
    predictions = Predictions(chance, targets, tasks)
    return Found(found | _calibration(predictions, bootstrap), predictions)


def _calibration(found: Predictions, bootstrap: Bootstrap) -> Measures:
    member = equal_width(found.chance, NUM_BINS)
    error = calibration_error(found.chance, found.true, member, NUM_BINS)
    squares = (found.chance - found.true) ** 2
    return {
        "calibration_error": _over(error, found.task, bootstrap),
        "brier": _over(weighted_mean(squares), found.task, bootstrap),
    }


def _over(statistic: Statistic, tasks: np.ndarray, bootstrap: Bootstrap) -> Interval:
    """Return a statistic of predictions with its interval over tasks: those of one task are resampled together."""
    count = int(tasks.max()) + 1
    present = np.unique(tasks)
    index = np.zeros(count, dtype=np.int64)
    index[present] = np.arange(len(present))
    member = index[tasks]

    def weighed(weights: Floats) -> Floats:
        return statistic(weights[:, member])

    return bootstrap.statistic(weighed, len(present), cells=max(len(member), NUM_BINS))


def _pairs(targets: Floats, tasks: np.ndarray) -> Iterator[tuple[int, int]]:
    """Yield (better, worse) of rows of one task; of a task with very many, of its first ones."""
    members: Mapping[int, list[int]] = {int(task): [] for task in np.unique(tasks)}
    for at, task in enumerate(tasks):
        members[int(task)].append(at)
    for inside in members.values():
        for first, second in combinations(inside[:MOST_PAIRED], 2):
            if targets[first] != targets[second]:
                yield (first, second) if targets[first] > targets[second] else (second, first)


def _sigmoid(values: Floats) -> Floats:
    return np.exp(-np.logaddexp(0.0, -values))
