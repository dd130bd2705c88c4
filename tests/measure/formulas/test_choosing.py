"""Best of n and the weighted vote: worked by hand, by brute force over all draws, and against maj@k."""

from __future__ import annotations

import math
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.measure.formulas.choosing import best_of, weighted_vote_at
from components.measure.formulas.majority import maj_at_k_values

SAMPLES = st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=7)


def test_best_of_two_by_hand() -> None:
    # scores .9 wrong, .5 right, .1 wrong: of three pairs {.9 .5} and {.9 .1} choose wrong, {.5 .1} right
    assert best_of([0.9, 0.5, 0.1], [False, True, False], [1, 2, 3, 4])[:3] == pytest.approx([1 / 3, 1 / 3, 0.0])
    assert math.isnan(best_of([0.9, 0.5, 0.1], [False, True, False], [4])[0])
    assert best_of([0.5, 0.5], [True, False], [2]) == [0.5]  # a tie is settled by chance


@given(SAMPLES)
def test_best_of_is_the_mean_over_all_draws(samples: list[tuple[int, bool]]) -> None:
    scores, right = [float(score) for score, _ in samples], [found for _, found in samples]
    for k in range(1, len(samples) + 1):
        drawn = []
        for rows in combinations(range(len(samples)), k):
            best = [row for row in rows if scores[row] == max(scores[row] for row in rows)]
            drawn.append(sum(right[row] for row in best) / len(best))
        assert best_of(scores, right, [k])[0] == pytest.approx(sum(drawn) / len(drawn))


def test_a_vote_by_weight_by_hand() -> None:
    answers, right = ["7", "8", "8"], [True, False, False]
    assert weighted_vote_at(answers, right, [0.9, 0.3, 0.3], [3], subsets=9, seed=0) == [1.0]  # .9 against .6
    assert weighted_vote_at(answers, right, [0.5, 0.3, 0.3], [3], subsets=9, seed=0) == [0.0]
    assert weighted_vote_at(answers, right, [0.6, 0.3, 0.3], [3], subsets=9, seed=0) == [0.5]  # tied
    assert weighted_vote_at(answers, right, [0.0] * 3, [2], subsets=9, seed=0) == [0.0]  # nothing has weight
    assert weighted_vote_at([None, None], [False, False], [1.0, 1.0], [2], subsets=9, seed=0) == [0.0]


@given(st.lists(st.tuples(st.sampled_from(["7", "8", "9", None]), st.booleans()), min_size=1, max_size=8))
def test_with_equal_weights_it_is_the_majority(samples: list[tuple[str | None, bool]]) -> None:
    answers = [answer for answer, _ in samples]
    right = [found and answer is not None for answer, found in samples]
    ks = list(range(1, len(samples) + 1))
    found = weighted_vote_at(answers, right, [0.7] * len(samples), ks, subsets=100, seed=0)
    assert found == pytest.approx(maj_at_k_values(answers, right, ks).tolist())


def test_drawn_subsets_are_near_all_of_them_and_the_same_each_time() -> None:
    answers, right = list("aabbbccccc"), [True] * 2 + [False] * 8
    weights = [0.9, 0.8] + [0.2] * 8
    (whole,) = weighted_vote_at(answers, right, weights, [5], subsets=252, seed=0)
    (some,) = weighted_vote_at(answers, right, weights, [5], subsets=200, seed=0)
    assert weighted_vote_at(answers, right, weights, [5], subsets=200, seed=0) == [some]
    assert some == pytest.approx(whole, abs=4 * math.sqrt(0.25 / 200)) and some != whole
