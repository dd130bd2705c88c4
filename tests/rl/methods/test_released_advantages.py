"""Presets' advantages against loops written from the authors' released code."""

from __future__ import annotations

import math
import random
import statistics
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from components.rl.operators.advantages.effective_rank import rank_measures
from components.rl.step.policies import Policies
from components.rl.step.scoring import response_hidden
from tests.rl.build import batch_of, context, near, operator, rows_of
from tests.rl.methods.released import advantage_of
from tests.rl.step.test_learner import tiny

# --- DCPO


class RunningDCPO:
    """The released advantage: a running mean of variances, and of means, over the visits to a prompt."""

    def __init__(self) -> None:
        self.visits, self.mean, self.variance = 0, 0.0, 0.0

    def visit(self, rewards: list[float]) -> list[float]:
        new, spread = statistics.fmean(rewards), statistics.stdev(rewards)
        before, self.visits = self.visits, self.visits + 1
        i = self.visits
        between = before / i * (new - self.mean) ** 2
        self.variance = (before * self.variance + spread**2 + between) / i if before else spread**2
        self.mean = (before * self.mean + new) / i
        deviation = math.sqrt(self.variance)
        found = []
        for reward in rewards:
            now = (reward - new) / spread if spread else 0.0
            total = (reward - self.mean) / deviation if deviation else 0.0
            first, second = total / i + (1 - 1 / i) * now, now / i + (1 - 1 / i) * total
            found.append(first if abs(first) < abs(second) else second)
        return found


def test_dcpo_differs_from_the_running_variance_of_its_release_by_no_more_than_it_says() -> None:
    largest = 0.0
    for seed in range(40):
        draw, released, memory = random.Random(seed), RunningDCPO(), {}
        for visit in range(8):
            chance = draw.random()
            rewards = [float(draw.random() < chance) for _ in range(16)]
            ours = advantage_of("dcpo", "smoothed_standard")(batch_of([rewards]), context(memory=memory))
            theirs = released.visit(rewards)
            assert visit or near(ours, theirs, 1e-4)  # nothing to run over yet
            largest = max(largest, *(abs(a - b) for a, b in zip(ours.tolist(), theirs, strict=True)))
    assert 0.02 < largest <= 0.05, largest


def test_dcpo_by_hand() -> None:
    memory: dict[str, Any] = {}
    act = advantage_of("dcpo", "smoothed_standard")
    act(batch_of([[1.0, 0.0]]), context(memory=memory))
    # then 1 1: nothing new; of all, 1 0 1 1, mean 3/4 and deviation 1/2: (1 - 3/4) / (1/2) / 2
    assert near(act(batch_of([[1.0, 1.0]]), context(memory=memory)), [0.25, 0.25], 1e-5)
    released = RunningDCPO()
    released.visit([1.0, 0.0])
    # running: (1/2 + 0 + 1/2 * 1/4) / 2 = 5/16
    assert released.visit([1.0, 1.0])[0] == pytest.approx(0.25 / math.sqrt(5 / 16) / 2)


# --- CANON

halves = st.lists(
    st.lists(st.tuples(st.sampled_from([0.0, 1.0]), st.integers(1, 5)), min_size=2, max_size=7), min_size=1, max_size=3
)


def released_canon(scores: list[float], keys: list[float], metric: str, mu: float, alpha: float) -> list[float]:
    """The released estimators, by length and by entropy, before their division by the token limit."""
    order = sorted(range(len(scores)), key=lambda row: keys[row])
    short, long = order[: len(order) // 2], order[len(order) // 2 :]
    mean_short, mean_long = (statistics.fmean(scores[row] for row in half) for half in (short, long))
    found = []
    for row, score in enumerate(scores):
        if metric == "length" and row in long:
            found.append(mu * (alpha * score - mean_short) + (1 - mu) * (score - mean_long))
        elif metric == "length":
            found.append(mu * (score - alpha * mean_long) + (1 - mu) * (score - mean_short))
        elif row in long:
            found.append(mu * (score - alpha * mean_short) + (1 - mu) * (score - mean_long))
        else:
            found.append(mu * (alpha * score - mean_long) + (1 - mu) * (score - mean_short))
    return found


@given(halves, st.sampled_from(["length", "entropy"]), st.sampled_from([0.0, 0.4, 1.0]), st.sampled_from([1.0, 0.7]))
def test_canon_equals_its_released_estimators(
    pairs: list[list[tuple[float, int]]], metric: str, mu: float, alpha: float
) -> None:
    batch = batch_of([[r for r, _ in group] for group in pairs], [[n for _, n in group] for group in pairs])
    entropies, expected = iter(rows_of(batch, batch.entropies)), []
    for group in pairs:
        keys = [statistics.fmean(next(entropies)) if metric == "entropy" else float(n) for _, n in group]
        expected += released_canon([score for score, _ in group], keys, metric, mu, alpha)
    act = operator("advantage", "canon", metric=metric, mu=mu, alpha=alpha)
    assert near(act(batch, context()), expected, 1e-5)
    if (metric, mu, alpha) == ("entropy", 1.0, 1.0):
        assert torch.equal(advantage_of("canon", "canon")(batch, context()), act(batch, context()))


def test_canons_cosine_is_the_released_one_with_restarts() -> None:
    """First between the halves, later within them: 30 steps of rise to 0.6, then cycles of 40."""
    batch = batch_of([[1.0, 0.0, 0.0, 0.0]], [[1, 2, 3, 4]])
    act = operator("advantage", "canon", metric="length", schedule="cosine", mu=0.6)
    for step in (0, 7, 29, 30, 45, 69, 70, 149):
        mu = 0.6 * (step + 1) / 30 if step < 30 else 0.3 * (1 + math.cos(math.pi * ((step - 30) % 40) / 40))
        expected = released_canon([1.0, 0.0, 0.0, 0.0], [1, 2, 3, 4], "length", mu, 1.0)
        assert near(act(batch, context(step=step)), expected, 1e-5)


# --- VERL


def released_curve(states: torch.Tensor, stride: int) -> tuple[float, float]:
    """The released first and second differences: windows of stride + 1, 2 stride + 1, ... states, and no tail."""

    def rank(window: torch.Tensor) -> float:
        values = torch.linalg.svdvals((window - window.mean(0)).double()).tolist()
        shares = [value / sum(values) for value in values]
        return math.exp(-sum(p * math.log(p) for p in shares if p > 0))

    history: list[float] = []
    first: list[float] = []
    for t in range(stride, len(states), stride):
        now = rank(states[: t + 1])
        if history:
            first.append(now - statistics.fmean(history))
        history.append(now)
    second = [after - before for before, after in pairwise(first)]
    return (statistics.fmean(first) if first else 0.0, statistics.fmean(second) if second else 0.0)


@pytest.mark.parametrize("length", [3, 40, 41, 80, 81, 120, 121, 200])
def test_verls_curves_equal_the_released_ones(length: int) -> None:
    states = torch.randn(length, 12, generator=torch.Generator().manual_seed(length))
    act = advantage_of("verl-effective-rank", "effective_rank")
    found = rank_measures([states], act.config.stride)[0].tolist()  # type: ignore[attr-defined]
    assert near(found[1:], released_curve(states, 40), 1e-5)
    assert (found[1] == 0) == (length < 81) and (found[2] == 0) == (length < 121)


def test_verls_bonus_equals_the_released_manager_over_four_steps() -> None:
    """Weight 0.3 of new values, gain 2, means from 0 that lag a step; the bonus ends at half of the advantage."""
    policies, memory = Policies(tiny(), Path("unused"), dtype="float32"), {}
    names = ("rank", "velocity", "acceleration")
    means, before = dict.fromkeys(names, 0.0), None
    act = advantage_of("verl-effective-rank", "effective_rank")
    act = operator("advantage", "effective_rank", **{**act.config.model_dump(), "stride": 2})
    for seed in range(4):
        batch = batch_of([[1.0, 0.0, 0.0], [0.0, 1.0]], [[3, 9, 7], [6, 8]], seed=seed)
        batch = batch.with_advantages(torch.tensor([1.0, -0.5, -2.0, 0.0, 0.8]))
        made = context(collector=SimpleNamespace(max_tokens=99), policies=policies, memory=memory)
        found = rows_of(batch, act(batch, made).advantages)
        rows = rank_measures(response_hidden(policies.trained, batch, max_tokens=99), 2).tolist()
        for row, (measures, advantage) in enumerate(zip(rows, [1.0, -0.5, -2.0, 0.0, 0.8], strict=True)):
            bonus = 0.0
            if before is not None:
                deviation = {
                    name: max(-5.0, min(5.0, (value - means[name]) / (abs(means[name]) + 1e-8)))
                    for name, value in zip(names, measures, strict=True)
                }
                b = 1 / (1 + math.exp(-2.0 * deviation["acceleration"]))
                bonus = b * math.tanh(deviation["rank"]) + (1 - b) * math.tanh(deviation["velocity"])
            expected = advantage + min(max(bonus, 0.0), abs(advantage) / 2)
            assert found[row] == pytest.approx([expected] * len(found[row]), abs=1e-4)
        if before is not None:
            means = {name: 0.7 * means[name] + 0.3 * before[name] for name in names}
        before = {name: statistics.fmean(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}
