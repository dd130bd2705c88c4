"""Presets' advantages against loops written from the authors' released code."""

from __future__ import annotations

import math
import random
import statistics
from typing import Any

import pytest

from tests.rl.build import batch_of, context, near
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
