"""Presets' advantages against loops written from the authors' released code."""

from __future__ import annotations

import math
import random
import statistics
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.rl.build import batch_of, context, near, operator, rows_of
from tests.rl.methods.released import advantage_of

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
