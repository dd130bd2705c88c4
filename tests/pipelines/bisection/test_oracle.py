"""Verdicts on halves: against values worked by hand, and against noise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from pipelines.bisection.oracle import judge, looks_of
from pipelines.bisection.search import Verdict


def test_a_verdict_worked_by_hand() -> None:
    look = looks_of(3, 3)[0]
    # distances from the middle 0.5, 0.55, 0.6 of ends at 0 and 1: 0.4, 0.5, 0.6 - 0.0, 0.05 ... all towards BAD
    found = judge([0.9, 1.05, 1.2], [0.0, 0.1, 0.2], [1.0, 1.0, 1.0], 1.0, look)
    at = [0.4, 0.5, 0.6]
    half = stats.t.ppf(1 - 0.02, 2) * np.std(at, ddof=1) / math.sqrt(3)
    assert found.interval.value == pytest.approx(0.5)
    assert (found.interval.low, found.interval.high) == pytest.approx((0.5 - half, 0.5 + half))
    assert found.verdict is Verdict.BAD


def test_a_metric_that_falls_is_judged_in_its_direction() -> None:
    look = looks_of(2, 2)[0]
    good, bad = [1.0, 1.0], [0.0, 0.0]
    assert judge([0.0, 0.001], good, bad, -1.0, look).verdict is Verdict.BAD
    assert judge([1.0, 1.001], good, bad, -1.0, look).verdict is Verdict.GOOD
    assert judge([0.5, 0.5], good, bad, -1.0, look).verdict is Verdict.UNDECIDED, "halfway"
    assert judge([0.0, 1.0], good, bad, -1.0, look).verdict is Verdict.UNDECIDED, "noise"


def test_looks_grow_to_the_last_and_share_one_error() -> None:
    looks = looks_of(3, 8)
    assert [look.seeds for look in looks] == [3, 5, 8]
    assert sum(look.alpha for look in looks) == pytest.approx(0.02)
    assert [look.seeds for look in looks_of(2, 2)] == [2]
    assert [look.seeds for look in looks_of(2, 4)] == [2, 3, 4]


def test_the_wrong_side_is_taken_as_rarely_as_the_looks_promise() -> None:
    generator, wrong, rounds = np.random.default_rng(1), 0, 1000
    looks = looks_of(3, 8)
    for _ in range(rounds):  # the worst case: exactly halfway, where any verdict is wrong
        values, good, bad = (generator.normal(mean, 1, 8).tolist() for mean in (0.5, 0, 1))
        verdicts = [
            judge(values[: look.seeds], good[: look.seeds], bad[: look.seeds], 1.0, look).verdict for look in looks
        ]
        wrong += any(verdict is not Verdict.UNDECIDED for verdict in verdicts)
    assert wrong / rounds <= 2 * 0.02 + 3 * math.sqrt(0.04 * 0.96 / rounds)
