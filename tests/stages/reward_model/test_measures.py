"""Measures of scores: worked by hand and against sklearn; what is held out."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from components.measure.intervals import Bootstrap
from components.modeling.scorers.network import Reading
from components.reward_model.measures import measure
from components.reward_model.rows import Unit, split_tasks

BOOTSTRAP = Bootstrap(300, 0.95, 0)


def unit(task: str, targets: tuple[float, ...], domain: str = "A") -> Unit:
    return Unit((Reading([1], [0]),), targets, task, domain, 1.0, 0)


def test_measures_of_pairs_by_hand() -> None:
    # margins 2, -1, 0: one right, one wrong, one tie
    units = [unit("a", (0.0,)), unit("a", (0.0,), "B"), unit("b", (0.0,))]
    rewards = [[2.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
    found = measure(units, rewards, "preferences", BOOTSTRAP, chances=True).measures
    assert found["pair_accuracy"].value == pytest.approx(0.5) and found["margin_mean"].value == pytest.approx(1 / 3)
    assert found["pair_accuracy"].n == 2, "tasks are resampled"
    assert found["pair_accuracy_A"].value == 0.75 and found["pair_accuracy_B"].value == 0.0
    assert found["auroc"].value == pytest.approx(roc_auc_score([1, 1, 1, 0, 0, 0], [2, 0, 1, 0, 1, 1]))
    chances = [1 / (1 + np.exp(-margin)) for margin in (2, 1, 0)]
    brier = ((chances[0] - 1) ** 2 + chances[1] ** 2 + 0.0) / 3
    assert found["brier"].value == pytest.approx(brier)
    # bins (.4, .5], (.7, .8], (.8, .9]: one in each
    error = (abs(0.5 - 0.5) + abs(chances[1] - 0.0) + abs(chances[0] - 1.0)) / 3
    assert found["calibration_error"].value == pytest.approx(error)
    without = measure(units, rewards, "preferences", BOOTSTRAP)
    assert found.keys() - without.measures.keys() == {"brier", "calibration_error"} and without.predictions is None


def test_measures_of_labels_pair_what_answers_one_task() -> None:
    units = [unit("a", (1.0,)), unit("a", (0.0,)), unit("b", (1.0,)), unit("c", (0.0,))]
    found = measure(units, [[2.0], [3.0], [1.0], [-1.0]], "labelled", BOOTSTRAP, chances=True).measures
    assert found["pair_accuracy"].value == 0.0 and found["margin_mean"].value == -1.0
    assert found["auroc"].value == pytest.approx(roc_auc_score([1, 0, 1, 0], [2, 3, 1, -1]))
    assert found["accuracy"].value == 0.75


def test_measures_of_graded_labels_and_of_sums() -> None:
    graded = measure([unit("a", (0.5,)), unit("b", (1.0,))], [[1.0], [1.5]], "labelled", BOOTSTRAP).measures
    assert set(graded) == {"squared_error"} and graded["squared_error"].value == 0.25
    steps = [unit("a", (0.0, 1.0)), unit("b", (1.0, 0.0))]
    summed = measure(steps, [[0.5, 0.75], [0.25, 0.25]], "stepwise", BOOTSTRAP, summed=True).measures
    assert summed["squared_error"].value == pytest.approx((0.0625 + 0.25) / 2) and summed["auroc"].value == 1.0


def test_intervals_are_those_of_tasks() -> None:
    rng = np.random.default_rng(0)
    tasks = [f"t{index // 10}" for index in range(200)]
    good = rng.random(20) < 0.7  # all ten pairs of a task have one outcome
    rewards = [[1.0, 0.0] if good[index // 10] else [0.0, 1.0] for index in range(200)]
    found = measure([unit(task, (0.0,)) for task in tasks], rewards, "preferences", BOOTSTRAP).measures
    width = found["pair_accuracy"].high - found["pair_accuracy"].low
    assert width > 0.25, "of 20 tasks; of 200 pairs it would be about .13"


def test_held_out_tasks_are_in_one_part_alone() -> None:
    units = [unit(f"t{index % 7}", (0.0,)) for index in range(70)]
    kept, held = split_tasks(units, 0.3, 5)
    assert len(held) == 20 and not {one.task for one in kept} & {one.task for one in held}
    assert split_tasks(units, 0.3, 5) == (kept, held) and split_tasks(units, 0.3, 6)[1] != held
    assert split_tasks(units, 0.0, 5) == (units, [])
    assert split_tasks(units[:1], 0.9, 5) == (units[:1], []), "of one task there is none to hold out"
    assert len({one.task for one in split_tasks(units, 0.99, 5)[0]}) == 1
