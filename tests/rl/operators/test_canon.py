"""CANON: by hand, against a loop over the released rule, and what its halves come to."""

from __future__ import annotations

import statistics
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from components.rl.batch.batch import Batch
from tests.rl.build import batch_of, context, near, operator, rows_of

groups = st.lists(
    st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.integers(1, 7)), min_size=1, max_size=7),
    min_size=1,
    max_size=4,
)


def built(pairs: list[list[tuple[float, int]]]) -> Batch:
    return batch_of([[r for r, _ in group] for group in pairs], [[n for _, n in group] for group in pairs])


def canon(batch: Batch, step: int = 0, **config: object) -> torch.Tensor:
    return operator("advantage", "canon", **config)(batch, context(step=step))


def test_by_hand() -> None:
    batch = built([[(1.0, 5), (0.0, 2), (1.0, 6), (0.0, 7)]])  # short: rewards 1, 0; long: 1, 0
    assert near(canon(batch, metric="length"), [0.5, -0.5, 0.5, -0.5])
    batch = built([[(1.0, 5), (1.0, 2), (1.0, 6), (0.0, 7)]])  # short: 1, 1; long: 1, 0
    assert near(canon(batch, metric="length"), [0.5, 0.5, 0.0, -1.0])
    assert near(canon(batch, metric="length", mu=0.0), [0.0, 0.0, 0.5, -0.5])
    assert near(canon(batch, metric="length", alpha=0.5), [0.75, 0.75, -0.5, -1.0])
    # entropies decide by their mean over tokens, not by their sum
    batch = replace(built([[(1.0, 1), (0.0, 4)]]), entropies=torch.tensor([0.9, 0.5, 0.5, 0.5, 0.5]))
    assert near(canon(batch, mu=1.0, alpha=0.5), [1.0, -1.0])


@given(groups, st.sampled_from(["length", "entropy"]), st.sampled_from([0.0, 0.3, 1.0]), st.sampled_from([1.0, 0.6]))
def test_a_loop_over_the_rule(pairs: list[list[tuple[float, int]]], metric: str, mu: float, alpha: float) -> None:
    batch = built(pairs)
    entropies = iter(rows_of(batch, batch.entropies))
    expected = []
    for group in pairs:
        keys = [statistics.fmean(next(entropies)) if metric == "entropy" else length for _, length in group]
        order = sorted(range(len(group)), key=lambda row: keys[row])
        low, high = order[: len(group) // 2], order[len(group) // 2 :]
        for row, (reward, _) in enumerate(group):
            if len(group) == 1:
                expected.append(0.0)
                continue
            own, other = (high, low) if row in high else (low, high)
            mean_own, mean_other = (statistics.fmean(group[i][0] for i in side) for side in (own, other))
            if (row in high) == (metric == "length"):  # the half that alpha scales: longer, or of lower entropy
                between = alpha * reward - mean_other
            else:
                between = reward - alpha * mean_other
            expected.append(mu * between + (1 - mu) * (reward - mean_own))
    assert near(canon(batch, metric=metric, mu=mu, alpha=alpha), expected)


@given(st.lists(st.lists(st.sampled_from([0.0, 1.0]), min_size=2, max_size=8), min_size=1, max_size=3))
def test_half_and_half_is_the_group_mean_where_the_halves_are_equal(rewards: list[list[float]]) -> None:
    even = [group if len(group) % 2 == 0 else [*group, 1.0] for group in rewards]
    batch = batch_of(even)
    assert near(canon(batch, mu=0.5), operator("advantage", "group_mean")(batch, context()).tolist())


@given(groups, st.data())
def test_permuting_a_group_permutes_its_advantages(pairs: list[list[tuple[float, int]]], data: st.DataObject) -> None:
    distinct = [[(reward, index + 1) for index, (reward, _) in enumerate(group)] for group in pairs]
    orders = [data.draw(st.permutations(range(len(group)))) for group in distinct]
    shuffled = [[group[index] for index in order] for group, order in zip(distinct, orders, strict=True)]
    before = iter(canon(built(distinct), metric="length", mu=0.7).tolist())
    rows = [[next(before) for _ in group] for group in distinct]
    expected = [row[index] for row, order in zip(rows, orders, strict=True) for index in order]
    assert near(canon(built(shuffled), metric="length", mu=0.7), expected)


@pytest.mark.parametrize("mu", [0.0, 0.4, 1.0])
def test_equal_rewards_give_zero(mu: float) -> None:
    assert canon(built([[(0.25, 1), (0.25, 4), (0.25, 2)]]), metric="length", mu=mu).tolist() == [0.0] * 3


def test_schedules() -> None:
    batch = built([[(1.0, 1), (0.0, 2), (0.0, 3), (0.0, 4)]])  # accuracy 1/4; short 1, 0; long 0, 0
    between, within = [1.0, 0.0, -0.5, -0.5], [0.5, -0.5, 0.0, 0.0]

    def mixed(mu: float) -> list[float]:
        return [mu * b + (1 - mu) * w for b, w in zip(between, within, strict=True)]

    assert near(canon(batch, metric="length", schedule="accuracy", mu=0.8), mixed(0.6))
    cosine = {"metric": "length", "schedule": "cosine", "mu": 0.6, "warmup_steps": 3, "cycle_steps": 4}
    for step, mu in enumerate([0.2, 0.4, 0.6, 0.6, 0.6 * (2 + 2**0.5) / 4, 0.3, 0.6 * (2 - 2**0.5) / 4, 0.6]):
        assert near(canon(batch, step, **cosine), mixed(mu))
