"""Bootstrap against scipy and by coverage; t intervals; paired tests against scipy."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from components.contract.errors import InputError
from components.measure import intervals
from components.measure.intervals import Bootstrap, Interval, seed_interval
from components.measure.paired import compare, holm, mcnemar_p_value, permutation_p_value

NAN = math.nan


def test_bootstrap_agrees_with_scipy() -> None:
    values = np.random.default_rng(3).beta(0.5, 0.8, 150)
    ours = Bootstrap(resamples=20_000, confidence=0.9, seed=1).mean_interval(values)
    theirs = scipy.stats.bootstrap(
        (values,), np.mean, n_resamples=20_000, confidence_level=0.9, method="percentile", random_state=2
    ).confidence_interval
    assert ours.value == pytest.approx(values.mean())
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=0.003)
    assert ours.n == 150


def test_bootstrap_intervals_cover_the_truth() -> None:
    """Pass rates of 80 prompts with 8 samples each, drawn 300 times: 95 % intervals hold the true mean."""
    generator = np.random.default_rng(0)
    covered = 0
    for seed in range(300):
        rates = generator.beta(1.0, 2.0, 80)  # mean 1/3
        interval = Bootstrap(resamples=400, seed=seed).mean_interval(generator.binomial(8, rates) / 8)
        covered += interval.low <= 1 / 3 <= interval.high
    assert 0.90 <= covered / 300 <= 0.985


def test_equal_settings_give_equal_intervals_and_another_seed_another() -> None:
    values = np.random.default_rng(0).random(50)
    assert Bootstrap(seed=5).mean_interval(values) == Bootstrap(seed=5).mean_interval(values)
    assert Bootstrap(seed=5).mean_interval(values) != Bootstrap(seed=6).mean_interval(values)


def test_memory_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(0).random((30, 2))
    whole = Bootstrap(resamples=500).means(values)
    monkeypatch.setattr(intervals, "MAX_RESAMPLED_CELLS", 7 * 30)
    np.testing.assert_array_equal(Bootstrap(resamples=500).means(values), whole)


def test_missing_values_are_left_out_and_counted() -> None:
    first, second = Bootstrap().mean_intervals(np.array([[1.0, NAN], [0.0, 0.5], [1.0, NAN]]))
    assert (first.value, first.n) == (pytest.approx(2 / 3), 3)
    assert second == Interval(0.5, 0.5, 0.5, 1)
    nothing = Bootstrap().mean_interval([NAN, NAN])
    assert math.isnan(nothing.value) and nothing.n == 0
    with pytest.raises(InputError, match="no value"):
        nothing.to_json()


def test_domains_count_the_same_whatever_their_size() -> None:
    large, small = np.ones(1000), np.array([0.0, 1.0, 0.0, 1.0])
    interval = Bootstrap().weighted_interval([large, small], [1, 1])
    assert interval.value == pytest.approx(0.75)
    assert interval.low == pytest.approx(0.5) and interval.high == pytest.approx(1.0)  # all spread is in the small one
    assert Bootstrap().weighted_interval([large, small], [3, 1]).value == pytest.approx(0.875)
    assert math.isnan(Bootstrap().weighted_interval([large, np.array([NAN])], [1, 1]).value)


def test_seed_interval_is_students_t() -> None:
    runs = [0.47, 0.53, 0.49]
    theirs = scipy.stats.t.interval(0.95, 2, np.mean(runs), scipy.stats.sem(runs))
    ours = seed_interval(runs)
    assert (ours.low, ours.high) == pytest.approx(theirs)
    assert ours.n == 3
    assert seed_interval([0.5]).high == math.inf
    assert seed_interval([0.5]).to_json() == {"value": 0.5, "n": 1}  # one run has no interval
    with pytest.raises(InputError):
        seed_interval([])


@given(st.integers(0, 40), st.integers(0, 40))
def test_mcnemar_is_the_binomial_test(only_first: int, only_second: int) -> None:
    total = only_first + only_second
    expected = scipy.stats.binomtest(only_first, total, 0.5).pvalue if total else 1.0
    assert mcnemar_p_value(only_first, only_second) == pytest.approx(expected)


def test_mcnemar_by_hand() -> None:
    assert mcnemar_p_value(1, 5) == pytest.approx(2 * (1 + 6) / 64)


@given(st.lists(st.integers(-4, 4), min_size=2, max_size=9))
def test_permutation_test_is_exact_on_few_prompts(differences: list[int]) -> None:
    expected = scipy.stats.permutation_test(
        (np.array(differences) / 8, np.zeros(len(differences))),
        lambda a, b: np.abs(np.mean(a - b)),
        permutation_type="samples",
        alternative="greater",
        n_resamples=np.inf,
    ).pvalue
    assert permutation_p_value(np.array(differences) / 8, seed=0) == pytest.approx(expected)


def test_permutation_test_by_drawing() -> None:
    generator = np.random.default_rng(0)
    null = [permutation_p_value(generator.normal(0, 1, 60), seed=s, permutations=500) for s in range(200)]
    assert 0.01 <= np.mean(np.array(null) < 0.05) <= 0.10
    assert permutation_p_value(generator.normal(1, 1, 60), seed=0) == pytest.approx(1 / 10_001)
    assert permutation_p_value([0.0, 0.0], seed=0) == 1.0


def test_compare_pairs_prompts() -> None:
    hard_and_easy = np.random.default_rng(0).choice([0.1, 0.9], 100)
    comparison = compare(hard_and_easy + 0.05, hard_and_easy, Bootstrap())
    assert comparison.difference.value == pytest.approx(0.05)
    assert comparison.difference.excludes_zero()  # though the spread between prompts is 8 times the difference
    assert comparison.p_permutation < 0.001
    assert (comparison.only_ours, comparison.only_theirs, comparison.p_mcnemar) == (0, 0, 1.0)


def test_compare_counts_solved_prompts_and_leaves_out_unverified_ones() -> None:
    comparison = compare([1.0, 0.6, 0.5, 0.0, NAN], [0.0, 0.2, 1.0, 0.0, 1.0], Bootstrap())
    assert comparison.difference.n == 4
    assert (comparison.only_ours, comparison.only_theirs) == (2, 1)
    with pytest.raises(InputError, match="share no prompt"):
        compare([NAN], [1.0], Bootstrap())


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []
