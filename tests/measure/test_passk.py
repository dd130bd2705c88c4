"""pass@k and maj@k against enumeration of all subsets."""

from __future__ import annotations

import math
from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.contract.errors import InputError
from components.measure.formulas.majority import maj_at_k, maj_at_k_values
from components.measure.passk import pass_at_k, pass_at_k_values


def enumerated_pass(right: list[bool], k: int) -> float:
    subsets = list(combinations(right, k))
    return sum(any(subset) for subset in subsets) / len(subsets)


def enumerated_majority(answers: list[str | None], right: list[bool], k: int) -> float:
    """Score every k-subset by hand: mean rightness of the tied winners; 0 when nobody votes."""
    rightness = {a: np.mean([r for b, r in zip(answers, right, strict=True) if b == a]) for a in answers}
    scores = []
    for subset in combinations(answers, k):
        votes = Counter(answer for answer in subset if answer is not None)
        if not votes:
            scores.append(0.0)
            continue
        top = max(votes.values())
        scores.append(np.mean([rightness[answer] for answer, count in votes.items() if count == top]))
    return float(np.mean(scores))


@given(st.lists(st.booleans(), min_size=1, max_size=8), st.data())
def test_pass_at_k_is_the_mean_over_all_subsets(right: list[bool], data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(right)))
    assert pass_at_k(len(right), sum(right), k) == pytest.approx(enumerated_pass(right, k), abs=1e-12)


@pytest.mark.parametrize(
    ("samples", "right", "k", "expected"),
    [
        (5, 1, 1, 0.2),
        (5, 2, 2, 0.7),  # 1 - C(3, 2) / C(5, 2)
        (5, 0, 5, 0.0),
        (5, 3, 3, 1.0),  # two wrong samples cannot fill three draws
        (200, 3, 100, 1 - (100 * 99 * 98) / (200 * 199 * 198)),
    ],
)
def test_pass_at_k_by_hand(samples: int, right: int, k: int, expected: float) -> None:
    assert pass_at_k(samples, right, k) == pytest.approx(expected, abs=1e-14)


def test_pass_at_k_is_stable_where_factorials_overflow() -> None:
    exact = 1 - math.comb(9_900, 500) / math.comb(10_000, 500)
    assert pass_at_k(10_000, 100, 500) == pytest.approx(exact, abs=1e-12)


def test_pass_at_k_values_mark_what_cannot_be_estimated() -> None:
    values = pass_at_k_values([4, 2, 0], [2, 2, 0], [1, 3])
    np.testing.assert_allclose(values, [[0.5, 1.0], [1.0, np.nan], [np.nan, np.nan]])


@given(st.lists(st.integers(0, 12), min_size=1, max_size=6))
def test_pass_at_k_rises_with_k_and_starts_at_the_pass_rate(right: list[int]) -> None:
    curve = pass_at_k_values([12] * len(right), right, range(1, 13))
    np.testing.assert_allclose(curve[:, 0], np.array(right) / 12)
    assert (np.diff(curve, axis=1) >= -1e-12).all()
    assert ((curve[:, -1] == 1) == (np.array(right) > 0)).all()


@pytest.mark.parametrize(("samples", "right", "k"), [(4, 1, 5), (4, 1, 0), (4, 5, 1), (4, -1, 1)])
def test_pass_at_k_refuses_impossible_numbers(samples: int, right: int, k: int) -> None:
    with pytest.raises(InputError, match="pass@"):
        pass_at_k(samples, right, k)


votes = st.lists(st.tuples(st.sampled_from(["a", "b", "c", None]), st.booleans()), min_size=1, max_size=8)


@given(votes, st.data())
def test_maj_at_k_is_the_mean_over_all_subsets(sampled: list[tuple[str | None, bool]], data: st.DataObject) -> None:
    answers, right = [list(column) for column in zip(*sampled, strict=True)]
    k = data.draw(st.integers(1, len(answers)))
    assert maj_at_k(answers, right, k) == pytest.approx(enumerated_majority(answers, right, k), abs=1e-12)


def test_maj_at_k_by_hand() -> None:
    # votes a a b c, a is right. k = 1: 1/2. k = 2: {aa} 1, four of {a, other} 1/2, {bc} 0. k = 3: twice aa+x: 1,
    # twice {a, b, c}: 1/3. k = 4: a wins.
    answers, right = ["a", "b", "a", "c"], [True, False, True, False]
    np.testing.assert_allclose(maj_at_k_values(answers, right, [1, 2, 3, 4, 5]), [1 / 2, 1 / 2, 2 / 3, 1.0, np.nan])


def test_maj_at_1_is_pass_at_1_and_a_majority_amplifies() -> None:
    answers, right = ["1"] * 20 + [str(n) for n in range(2, 14)], [True] * 20 + [False] * 12
    curve = maj_at_k_values(answers, right, [1, 8, 32])
    assert curve[0] == pytest.approx(20 / 32)
    assert curve[0] < curve[1] < curve[2] == 1.0


def test_maj_at_k_of_many_samples_stays_exact() -> None:
    answers, right = ["a"] * 100 + ["b"] * 100, [True] * 100 + [False] * 100
    assert maj_at_k(answers, right, 101) == pytest.approx(0.5, abs=1e-9)  # by symmetry
    with pytest.raises(InputError, match="1000"):
        maj_at_k(["a"] * 1001, [True] * 1001, 1)


def test_all_abstaining_scores_zero() -> None:
    assert maj_at_k([None, None], [False, False], 2) == 0.0
