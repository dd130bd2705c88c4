"""Advantages: by hand, against loops written from the formulas, and their invariances."""

from __future__ import annotations

import math
import statistics

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.rl.build import batch_of, context, near, operator

rewards_of_groups = st.lists(
    st.lists(st.sampled_from([-1.0, 0.0, 0.25, 1.0]), min_size=2, max_size=6), min_size=1, max_size=5
)
BASELINED = ["group_mean", "group_mean_std", "leave_one_out"]


def advantage(name: str, rewards: list[list[float]], **config: float) -> list[float]:
    return operator("advantage", name, **config)(batch_of(rewards), context()).tolist()


def test_group_mean_std_by_hand() -> None:
    # mean 1/4, squared deviations 9/16 + 3/16 = 3/4; / 3 -> std 1/2
    assert near(advantage("group_mean_std", [[1.0, 0.0, 0.0, 0.0]], epsilon=1e-12), [1.5, -0.5, -0.5, -0.5])
    # population std sqrt(3)/4
    found = advantage("group_mean_std", [[1.0, 0.0, 0.0, 0.0]], epsilon=1e-12, ddof=0)
    assert near(found, [3**0.5, *[-(3**-0.5)] * 3])


def test_group_mean_and_leave_one_out_by_hand() -> None:
    assert near(advantage("group_mean", [[1.0, 0.0, 0.0, 0.0], [2.0, 4.0]]), [0.75, -0.25, -0.25, -0.25, -1.0, 1.0])
    assert near(advantage("leave_one_out", [[1.0, 0.0, 0.0], [2.0, 4.0]]), [1.0, -0.5, -0.5, -2.0, 2.0])
    assert advantage("leave_one_out", [[1.0]]) == [0.0]


def test_plain_reward_is_the_reward() -> None:
    assert advantage("plain_reward", [[1.0, 0.0], [0.25, -1.0]]) == [1.0, 0.0, 0.25, -1.0]


@given(rewards_of_groups)
def test_agreement_with_loops_over_the_formulas(groups: list[list[float]]) -> None:
    standard, mean, others = [], [], []
    for group in groups:
        centre, spread = statistics.fmean(group), statistics.stdev(group)
        for index, reward in enumerate(group):
            rest = group[:index] + group[index + 1 :]
            standard.append((reward - centre) / (spread + 1e-6))
            mean.append(reward - centre)
            others.append(reward - statistics.fmean(rest))
    assert near(advantage("group_mean_std", groups), standard, 1e-5)
    assert near(advantage("group_mean", groups), mean, 1e-6)
    assert near(advantage("leave_one_out", groups), others, 1e-6)


@pytest.mark.parametrize("name", BASELINED)
@given(groups=rewards_of_groups, data=st.data())
def test_permuting_a_group_permutes_its_advantages(name: str, groups: list[list[float]], data: st.DataObject) -> None:
    orders = [data.draw(st.permutations(range(len(group)))) for group in groups]
    shuffled = [[group[index] for index in order] for group, order in zip(groups, orders, strict=True)]
    before, after = iter(advantage(name, groups)), advantage(name, shuffled)
    rows = [[next(before) for _ in group] for group in groups]
    expected = [row[index] for row, order in zip(rows, orders, strict=True) for index in order]
    assert near(after, expected)


@pytest.mark.parametrize("name", BASELINED)
@given(reward=st.floats(-10, 10, width=32), size=st.integers(1, 9))
def test_equal_rewards_give_exactly_zero(name: str, reward: float, size: int) -> None:
    assert advantage(name, [[reward] * size]) == [0.0] * size


@pytest.mark.parametrize("name", BASELINED)
@given(groups=rewards_of_groups, shift=st.sampled_from([-2.0, 0.5, 3.0]))
def test_a_constant_added_to_a_group_changes_nothing(name: str, groups: list[list[float]], shift: float) -> None:
    moved = [[reward + shift for reward in group] for group in groups]
    assert near(advantage(name, moved), advantage(name, groups), 1e-5)


def test_binary_rewards_amplify_the_rare_outcome() -> None:
    # population standardisation: a success at pass rate p has advantage sqrt((1 - p) / p)
    found = advantage("group_mean_std", [[1.0] + [0.0] * 7], ddof=0, epsilon=1e-9)
    assert found[0] == pytest.approx(math.sqrt(7), rel=1e-5)
    assert found[1] == pytest.approx(-math.sqrt(1 / 7), rel=1e-5)


def test_groups_of_different_size_do_not_mix() -> None:
    together = advantage("group_mean_std", [[1.0, 0.0], [1.0, 1.0, 0.0]])
    assert near(together, advantage("group_mean_std", [[1.0, 0.0]]) + advantage("group_mean_std", [[1.0, 1.0, 0.0]]))
    assert torch.tensor(together).isfinite().all()
