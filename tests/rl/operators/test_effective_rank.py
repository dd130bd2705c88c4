"""VERL: ranks of known matrices, the curve's motion by hand, bounds of the bonus, and its memory."""

from __future__ import annotations

import math
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from components.rl.batch.batch import Batch
from components.rl.operators.advantages.effective_rank import channel_bonus, rank_measures
from components.rl.step.policies import Policies
from components.rl.step.scoring import response_hidden
from tests.rl.build import batch_of, context, near, operator
from tests.rl.step.test_learner import LENGTHS, REWARDS, tiny


class Bound:
    """Stands for the collector: the operator reads only its bound on a forward pass."""

    max_tokens = 30


def rank(states: Tensor) -> float:
    return float(rank_measures([states], 1000)[0, 0])


def test_ranks_of_known_matrices() -> None:
    corners = torch.tensor([[1.0, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0]])  # singular values sqrt 2, sqrt 2
    assert rank(corners) == pytest.approx(2.0, abs=1e-6)
    assert rank(corners + 7) == pytest.approx(2.0, abs=1e-5)  # the mean is taken away
    assert rank(torch.outer(torch.arange(5.0), torch.ones(9))) == pytest.approx(1.0, abs=1e-5)
    stretched = corners * torch.tensor([3.0, 1.0, 1.0])  # shares 3/4 and 1/4
    assert rank(stretched) == pytest.approx(math.exp(0.75 * math.log(4 / 3) + 0.25 * math.log(4)), abs=1e-6)
    assert rank(torch.ones(1, 5)) == 0.0 and rank(torch.ones(4, 5)) == 0.0


@given(
    lengths=st.lists(st.integers(1, 13), min_size=1, max_size=5),
    width=st.integers(2, 6),
    stride=st.integers(1, 5),
    seed=st.integers(0, 9),
)
def test_measures_equal_a_loop_with_singular_values(lengths: list[int], width: int, stride: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    hidden = [torch.randn(length, width, generator=generator) for length in lengths]

    def by_svd(states: Tensor) -> float:
        if len(states) < 2:
            return 0.0
        values = torch.linalg.svdvals((states - states.mean(0)).double()).tolist()
        shares = [value / sum(values) for value in values]
        return math.exp(-sum(p * math.log(p) for p in shares if p > 0))

    for states, found in zip(hidden, rank_measures(hidden, stride).tolist(), strict=True):
        length = len(states)
        sizes = range(stride + 1, length + 1, stride)
        curve = [by_svd(states[:size]) for size in sizes]
        changes = [curve[j] - sum(curve[:j]) / j for j in range(1, len(curve))]
        turns = [changes[j] - changes[j - 1] for j in range(1, len(changes))]
        means = [sum(row) / len(row) if row else 0.0 for row in (changes, turns)]
        assert near(found, [by_svd(states), *means], 1e-5)


def test_the_channel_follows_acceleration() -> None:
    means = {"rank": 2.0, "velocity": 1.0, "acceleration": -1.0}

    def bonus(rank: float, velocity: float, acceleration: float, gain: float = 1.5) -> float:
        measures = {"rank": rank, "velocity": velocity, "acceleration": acceleration}
        values = {name: torch.tensor([value], dtype=torch.float64) for name, value in measures.items()}
        return float(channel_bonus(values, means, gain))

    assert bonus(3.0, 1.0, -1.0) == pytest.approx(0.5 * math.tanh(0.5))  # b = 1/2
    assert bonus(3.0, 2.0, 0.0) == pytest.approx(
        (1 - (b := 1 / (1 + math.exp(1.5)))) * math.tanh(0.5) + b * math.tanh(1.0)
    )
    assert bonus(99.0, 1.0, 99.0, gain=40.0) == pytest.approx(math.tanh(5.0))  # deviations end at 5


def step_of(batch: Batch, policies: Policies, memory: dict[str, Any], **config: object) -> Batch:
    made: Any = Bound()
    settings = {"stride": 2, "falls_with_success": False, **config}
    return operator("advantage", "effective_rank", **settings)(
        batch, context(collector=made, policies=policies, memory=memory)
    )


def test_the_bonus_is_bounded_and_nothing_else_changes() -> None:
    policies = Policies(tiny(), Path("unused"), dtype="float32")
    batch = batch_of(REWARDS, LENGTHS)
    batch = batch.with_advantages(operator("advantage", "group_mean_std")(batch, context()))
    memory: dict[str, Any] = {}
    first = step_of(batch, policies, memory)
    assert torch.equal(first.advantages, batch.advantages)
    measures = rank_measures(response_hidden(policies.trained, batch, max_tokens=99), 2)
    assert near(first.extras["rank_s"], measures[:, 0].tolist(), 1e-5)
    mean = float(measures[:, 0].mean())
    assert memory["last"]["rank"] == pytest.approx(mean, rel=1e-6) and memory["means"]["rank"] == 0.0
    for kappa in (1.0, 2.0, 5.0):  # the batch lies far above means of 0, so the bound is reached
        found = step_of(batch, policies, deepcopy(memory), kappa=kappa, gain=0.0, scale=10.0).advantages
        ratio = found[batch.advantages > 0] / batch.advantages[batch.advantages > 0]
        assert bool((ratio >= 1).all()) and float(ratio.max()) == pytest.approx(1 + 1 / kappa)
        lifted = found - batch.advantages
        assert bool((lifted >= 0).all()) and bool((lifted <= batch.advantages.abs() / kappa + 1e-6).all())
        assert torch.equal(found == 0, batch.advantages == 0) or kappa == 1.0
    for share in (0.75, 0.75 + 0.25 * 0.75):  # of the measure that every step has
        step_of(batch, policies, memory, decay=0.25)
        assert memory["means"]["rank"] == pytest.approx(share * mean, rel=1e-6)


def test_the_bonus_vanishes_with_success_and_without_scale() -> None:
    policies = Policies(tiny(), Path("unused"), dtype="float32")
    batch = batch_of([[1.0, 1.0, 1.0]], [[3, 4, 6]]).with_advantages(torch.tensor([1.0, -1.0, 2.0]))
    last = {"rank": 1.0, "velocity": 1.0, "acceleration": 0.0}
    seen = {"means": {"rank": 1e-3, "velocity": 1e-3, "acceleration": 0.0, "success": 1.0}, "last": last}
    assert torch.equal(step_of(batch, policies, deepcopy(seen), falls_with_success=True).advantages, batch.advantages)
    assert torch.equal(step_of(batch, policies, deepcopy(seen), scale=0.0).advantages, batch.advantages)
    assert not torch.equal(step_of(batch, policies, deepcopy(seen)).advantages, batch.advantages)


def test_an_empty_batch_leaves_the_memory_alone() -> None:
    policies = Policies(tiny(), Path("unused"), dtype="float32")
    batch = batch_of(REWARDS, LENGTHS)
    empty = batch.select(torch.zeros(batch.num_responses, dtype=torch.bool))
    memory: dict[str, Any] = {}
    assert step_of(replace(empty), policies, memory).num_responses == 0 and memory == {}
