"""Ablations at equal cost: steps of arms are scaled until they spend what the baseline spends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.methods.ablation.spending import MAX_ROUNDS, is_alike, match_steps, share_spent, steps_of
from pipelines.methods.reproduce import Finding, Reproduction
from pipelines.recipe.recipe import load_recipe
from tests.pipelines.methods.test_ablate import VALUE, ablation

Cost = Callable[[int], float]


def matched(baseline: float, steps: Mapping[str, int], cost: Mapping[str, Cost]) -> tuple[dict[str, int], int]:
    """Return the scaled steps of arms that cost this much with so many steps, and how often all arms ran."""
    runs: list[Mapping[str, int]] = []

    def run_with(changed: Mapping[str, int]) -> Reproduction:
        runs.append(changed)
        arms = {arm: (cost[arm](count),) for arm, count in {**steps, **changed}.items()}
        return replace(ablation(0.0, 0.0).found, budget=Finding(VALUE, {"baseline": (baseline,), **arms}))

    return match_steps(steps, run_with), len(runs)


def test_an_arm_that_draws_less_gets_more_steps_and_equal_ones_keep_theirs() -> None:
    """DAPO's ten steps draw what GRPO's 24 do; without dynamic sampling a step draws what GRPO's does."""
    cost: dict[str, Cost] = {"without_filters": lambda n: 1792.0 * n, "without_rewards": lambda n: 4400.0 * n}
    assert matched(24 * 1792.0, {"without_filters": 10, "without_rewards": 10}, cost) == ({"without_filters": 24}, 2)


def test_steps_that_become_dearer_are_found_in_more_rounds() -> None:
    """The n-th step draws n batches: 8 steps draw 36, so of 20 steps, which draw 210, 8 fit a budget of 36."""
    found, runs = matched(36.0, {"a": 20}, {"a": lambda n: n * (n + 1) / 2})
    assert found == {"a": 8} and runs <= MAX_ROUNDS


def test_an_arm_that_cannot_be_made_equal_keeps_the_nearest_and_is_told() -> None:
    found, _ = matched(1.5, {"a": 4}, {"a": lambda n: 1.0 * n})
    assert found["a"] in (1, 2)
    assert not is_alike(found["a"] / 1.5)


def test_an_arm_that_spends_nothing_is_left_alone() -> None:
    assert matched(5.0, {"a": 4}, {"a": lambda _: 0.0}) == ({}, 1)


def test_claims_about_cost_are_not_made_equal() -> None:
    found = replace(ablation(0.0, 0.0).found, budget=None)
    assert match_steps({"without_a": 4}, lambda _: found) == {}


@given(st.integers(10, 200), st.floats(0.2, 5.0), st.integers(20, 200))
def test_linear_costs_are_matched_in_two_runs(count: int, per_step: float, target: int) -> None:
    """Beyond 10 steps one step is at most a tenth, so the nearest number lies within the tolerance."""
    found, runs = matched(float(target * per_step), {"a": count}, {"a": lambda n: per_step * n})
    assert runs <= 2 and is_alike(found.get("a", count) / target)


@pytest.mark.parametrize(
    ("share", "alike"), [(1.05, True), (1.06, False), (1 / 1.05, True), (0.94, False), (0.0, False)]
)
def test_tolerance_is_the_same_on_both_sides(share: float, alike: bool) -> None:
    assert is_alike(share) is alike


def test_shares_and_steps_of_arms() -> None:
    budget = Finding(VALUE, {"baseline": (10.0, 30.0), "a": (30.0, 30.0)})
    assert share_spent(budget, "a") == 1.5
    steps = steps_of(load_recipe("methods/dapo", ["rl_steps=24", "matrix.arm.method.steps=10"]))
    assert (steps["method"], steps["baseline"]) == (10, 24)
