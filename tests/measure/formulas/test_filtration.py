"""R^2 of filtered responses by hand, by scipy, and by a loop over bins."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import linregress

from components.measure.formulas.filtration import r_squared


def test_three_bins_by_hand() -> None:
    rewards, truth = np.array([3.0, 1.0, 2.0, 4.0, 5.0, 6.0]), np.array([0.0, 0.0, 1.0, 1.0, 1.0, 0.0])
    # bins (1, 2), (3, 4), (5, 6): means 1.5, 3.5, 5.5 and .5, .5, .5
    assert math.isnan(r_squared(rewards, truth, np.ones(6), 3)), "true scores do not vary over bins"
    truth[2] = 0.0
    # means of truth 0, .5, .5: correlation sqrt(3) / 2
    assert r_squared(rewards, truth, np.ones(6), 3) == pytest.approx(0.75)
    weights = np.array([1.0, 1.0, 0.0, 0.0, 1.0, 0.0])
    # kept: 1, 3, 5 with 0, 0, 1
    assert r_squared(rewards, truth, weights, 3) == pytest.approx(0.75)


@given(
    values=st.lists(st.tuples(st.integers(-50, 50), st.floats(0, 1)), min_size=12, max_size=40),
    bins=st.integers(3, 6),
)
def test_equal_weights_are_means_of_equal_bins_in_scipy(values: list[tuple[int, float]], bins: int) -> None:
    size = len(values) // bins * bins
    rewards, truth = np.array(values, dtype=float)[:size].T
    rewards = rewards + np.arange(size) * 1e-3  # an order without ties
    order = np.argsort(rewards)
    x, y = (part[order].reshape(bins, -1).mean(axis=1) for part in (rewards, truth))
    found = r_squared(rewards, truth, np.full(size, 0.7), bins)
    if np.ptp(y) < 1e-6:
        return
    assert found == pytest.approx(linregress(x, y).rvalue ** 2, abs=1e-6)


@given(seed=st.integers(0, 200), bins=st.integers(3, 5))
def test_whole_weights_are_repeats(seed: int, bins: int) -> None:
    rng = np.random.default_rng(seed)
    rewards, truth, counts = rng.normal(size=15), rng.random(15), rng.integers(1, 4, 15)
    spread = r_squared(np.repeat(rewards, counts), np.repeat(truth, counts), np.ones(counts.sum()), bins)
    assert r_squared(rewards, truth, counts.astype(float), bins) == pytest.approx(spread, abs=1e-9)


def test_what_is_undefined_is_nan() -> None:
    ones = np.ones(4)
    assert math.isnan(r_squared(np.arange(4.0), np.arange(4.0), ones, 5)), "fewer responses than bins"
    assert math.isnan(r_squared(np.zeros(4), np.arange(4.0), ones, 4)), "one reward for all"
    assert math.isnan(r_squared(np.arange(4.0), np.arange(4.0), np.zeros(4), 3))
    assert r_squared(np.arange(4.0), np.arange(4.0), ones, 4) == pytest.approx(1.0)
