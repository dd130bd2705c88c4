"""The greedy order by novelty against the formula with its inverse written out, and calls to the first right one."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.measure.formulas.diversity import ead
from components.measure.formulas.spread import calls_to_first_right, expected_calls, novelty_order


def by_inverse(features: np.ndarray, regularization: float) -> list[int]:
    """Greedy by h' (regularization I + sum of h h')^-1 h, inverted anew for each pick."""
    centred = features - features.mean(axis=0)
    order: list[int] = []
    while len(order) < len(centred):
        seen = centred[order]
        inverse = np.linalg.inv(regularization * np.eye(centred.shape[1]) + seen.T @ seen)
        gains = {row: centred[row] @ inverse @ centred[row] for row in range(len(centred)) if row not in order}
        order.append(max(gains, key=lambda row: (gains[row], -row)))
    return order


@pytest.mark.parametrize("seed", range(8))
def test_the_order_is_that_of_the_written_out_inverse(seed: int) -> None:
    features = np.random.default_rng(seed).normal(size=(9, 4))
    assert novelty_order(features, 0.1) == by_inverse(features, 0.1)


def test_a_repeat_comes_after_what_is_new() -> None:
    features = np.array([[3.0, 0.0], [3.0, 0.0], [0.0, 2.0], [-3.0, -1.0]])
    order = novelty_order(features, 0.01)
    assert order.index(1) > order.index(2) and order.index(1) > order.index(3)
    assert novelty_order(np.ones((3, 2)), 0.01) == [0, 1, 2]  # nothing to tell them apart


@given(st.integers(1, 6), st.data())
def test_expected_calls_are_the_mean_over_all_orders(size: int, data: st.DataObject) -> None:
    right = data.draw(st.lists(st.booleans(), min_size=size, max_size=size).filter(any))
    calls = [calls_to_first_right(order) for order in permutations(right)]
    known = [found for found in calls if found is not None]
    assert expected_calls(size, sum(right)) == pytest.approx(sum(known) / len(known))
    assert expected_calls(size, 0) is None and calls_to_first_right([False] * size) is None


def test_adjusted_distinct_n_grams_by_hand() -> None:
    # three distinct of four 1-grams, of two words: 3 / (2 (1 - (1/2)^4)) = 1.6
    assert ead([["a", "b"], ["a", "c"]], 1, 2) == pytest.approx(1.6)
    assert ead([["a", "b"], ["a", "c"]], 2, 50257) == pytest.approx(2 / (50257 * (1 - (50256 / 50257) ** 2)), rel=1e-9)
    assert ead([["a"]], 2, 50) is None
