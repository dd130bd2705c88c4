"""Passes for several ranks: every sequence once, within the limit, and rounds that keep all ranks at work."""

from __future__ import annotations

import math
import random
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.modeling.packing.balance import rank_batches, rounds_cost
from components.modeling.packing.batching import micro_batches


def efficiency(costs: list[int], max_tokens: int, ranks: int) -> float:
    """Return the share of the ranks' time that is work."""
    passes = [sum(costs[index] for index in part) for part in rank_batches(costs, max_tokens, ranks)]
    return sum(costs) / (ranks * rounds_cost(passes, ranks))


def lengths(count: int, *, seed: int = 0, median: int = 400, spread: float = 0.8) -> list[int]:
    rng = random.Random(seed)
    return [max(5, int(rng.lognormvariate(math.log(median), spread))) for _ in range(count)]


@given(costs=st.lists(st.integers(1, 30), max_size=25), max_tokens=st.integers(1, 60), ranks=st.integers(2, 9))
def test_passes_cover_all_once_within_the_limit(costs: list[int], max_tokens: int, ranks: int) -> None:
    plan = rank_batches(costs, max_tokens, ranks)
    assert sorted(index for part in plan for index in part) == list(range(len(costs)))
    assert all(plan)
    for part in plan:
        assert sum(costs[index] for index in part) <= max_tokens or len(part) == 1
    assert len(plan) % ranks == 0 or len(plan) == len(costs)
    totals = [sum(costs[index] for index in part) for part in plan]
    assert totals == sorted(totals, reverse=True)


@given(costs=st.lists(st.integers(1, 30), max_size=25), max_tokens=st.integers(1, 60))
def test_one_process_cuts_by_length(costs: list[int], max_tokens: int) -> None:
    assert rank_batches(costs, max_tokens, 1) == list(micro_batches(costs, max_tokens))


def test_passes_by_hand() -> None:
    # 23 tokens, two ranks of at most 12: one round of 12 and 11.
    assert rank_batches([3, 8, 1, 5, 6], 12, 2) == [[1, 0, 2], [4, 3]]
    # One round of two passes holds 22 tokens at most, so two rounds: 8 with 6 beside it, then 5 with 4.
    assert rank_batches([3, 8, 1, 5, 6], 11, 2) == [[1], [4], [3], [0, 2]]
    assert rounds_cost([8, 6, 5, 4], 2) == 8 + 5
    # One sequence more than a round: the idle rank repeats the last pass, which is the cheapest.
    assert rank_batches([7, 7, 7], 8, 2) == [[0], [1], [2]]
    assert rounds_cost([7, 7, 7], 2) == 14
    assert rank_batches([], 8, 2) == [] and rounds_cost([], 2) == 0


@given(costs=st.lists(st.integers(1, 12), min_size=1, max_size=6), ranks=st.integers(2, 3))
def test_one_round_is_near_the_best_there_is(costs: list[int], ranks: int) -> None:
    """Graham's bound, against all assignments: at most 4/3 - 1/(3 ranks) of the best."""
    best = min(
        max(sum(cost for cost, at in zip(costs, given_to, strict=True) if at == rank) for rank in range(ranks))
        for given_to in product(range(ranks), repeat=len(costs))
    )
    passes = [sum(costs[index] for index in part) for part in rank_batches(costs, sum(costs), ranks)]
    assert rounds_cost(passes, ranks) <= (4 / 3 - 1 / (3 * ranks)) * best + 1e-9


@pytest.mark.parametrize("ranks", [1, 2, 4, 8, 16, 32, 64])
def test_ranks_are_at_work_with_eight_sequences_each(ranks: int) -> None:
    """At least 95 %, or what one long sequence leaves possible, with 8 sequences of very different length a rank."""
    for seed in range(5):
        costs = lengths(8 * ranks, seed=seed)
        possible = sum(costs) / (ranks * max(max(costs), sum(costs) / ranks))
        assert efficiency(costs, 16384, ranks) >= 0.95 * possible
