"""Advantages over more than a group: of the batch, of a prompt's history, of tokens by entropy."""

from __future__ import annotations

import statistics
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from components.rl.batch.batch import Batch
from components.rl.operators.advantages.smoothed_standard import Moments
from tests.rl.build import batch_of, context, near, operator, rows_of

rewards_of_groups = st.lists(
    st.lists(st.sampled_from([-1.0, 0.0, 0.25, 1.0]), min_size=2, max_size=5), min_size=1, max_size=4
)

# --- Lite PPO


def test_group_mean_batch_std_by_hand() -> None:
    # rewards 1 0 | 1 1: mean 3/4, squared deviations 1/16 * 3 + 9/16 = 3/4, / 3 -> std 1/2
    found = operator("advantage", "group_mean_batch_std", epsilon=1e-12)(batch_of([[1.0, 0.0], [1.0, 1.0]]), context())
    assert near(found, [1.0, -1.0, 0.0, 0.0])


@given(rewards_of_groups)
def test_group_mean_batch_std_equals_a_loop(groups: list[list[float]]) -> None:
    spread = statistics.stdev([reward for group in groups for reward in group]) + 1e-6
    expected = [(reward - statistics.fmean(group)) / spread for group in groups for reward in group]
    found = operator("advantage", "group_mean_batch_std")(batch_of(groups), context())
    assert near(found, expected, 1e-4)
    assert all(a == 0 for a, e in zip(found.tolist(), expected, strict=True) if abs(e) < 1e-12)


def test_a_nearly_equal_group_is_not_blown_up() -> None:
    groups = [[1.0, 1.0, 1.0, 0.99], [1.0, 0.0, 0.0, 1.0]]
    own = operator("advantage", "group_mean_std")(batch_of(groups), context())
    of_batch = operator("advantage", "group_mean_batch_std")(batch_of(groups), context())
    assert abs(float(own[3])) > 1 > 0.05 > abs(float(of_batch[3]))


# --- REINFORCE++


def test_reward_minus_kl_by_hand() -> None:
    batch = batch_of([[1.0, 0.0]], [[2, 1]])
    reference = batch.old_logprobs - torch.tensor([0.1, 0.2, -0.4])
    found = operator("advantage", "reward_minus_kl", coefficient=0.5)(
        replace(batch, reference_logprobs=reference), context()
    )
    assert near(found, [1 - 0.5 * 0.3, 1 - 0.5 * 0.2, 0.5 * 0.4])


@pytest.mark.parametrize("over", ["tokens", "responses"])
def test_whitening_gives_mean_zero_and_spread_one(over: str) -> None:
    batch = batch_of([[1.0, 0.0, 0.0], [0.0, 1.0]], [[1, 5, 2], [3, 3]])
    batch = batch.with_advantages(batch.rewards)
    found = batch.with_advantages(operator("advantage", "whiten", over=over)(batch, context()))
    values = found.advantages if over == "tokens" else found.response_mean(found.advantages)
    assert float(values.double().mean()) == pytest.approx(0, abs=1e-6)
    assert float(values.double().std(correction=0)) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("value", [0.0, 1.0, 0.1])
def test_whitening_nothing_but_equal_advantages_is_exactly_zero(value: float) -> None:
    batch = batch_of([[value] * 3])
    batch = batch.with_advantages(torch.full((3,), value))
    assert operator("advantage", "whiten")(batch, context()).tolist() == [0.0] * batch.num_tokens


def test_the_variant_with_a_group_baseline_is_a_chain() -> None:
    batch = batch_of([[1.0, 0.0], [1.0, 1.0]], [[1, 1], [1, 1]])
    batch = batch.with_advantages(operator("advantage", "group_mean")(batch, context()))
    found = operator("advantage", "whiten", epsilon=1e-12)(batch, context())
    assert near(found, [2**0.5, -(2**0.5), 0.0, 0.0])  # 1/2 -1/2 0 0, variance 1/8


# --- the 80/20 rule


def with_entropies(values: list[float]) -> Batch:
    batch = batch_of([[1.0]], [[len(values)]]).with_advantages(torch.tensor([2.0]))
    return replace(batch, entropies=torch.tensor(values))


@pytest.mark.parametrize(
    "keep, rescale, expected",
    [
        ("highest", False, [0.0, 2.0, 0.0, 0.0, 0.0]),
        ("highest", True, [0.0, 10.0, 0.0, 0.0, 0.0]),
        ("lowest", False, [2.0, 0.0, 0.0, 0.0, 0.0]),
    ],
)
def test_entropy_share_by_hand(keep: str, rescale: bool, expected: list[float]) -> None:
    batch = with_entropies([0.1, 0.9, 0.5, 0.2, 0.3])
    assert near(operator("advantage", "entropy_share", keep=keep, rescale=rescale)(batch, context()), expected)


@pytest.mark.parametrize("keep", ["highest", "lowest", "random"])
def test_a_share_of_one_keeps_every_token(keep: str) -> None:
    batch = with_entropies([0.1, 0.9, 0.5, 0.2, 0.3])
    assert operator("advantage", "entropy_share", share=1.0, keep=keep)(batch, context()).tolist() == [2.0] * 5


@given(share=st.floats(0.05, 1), seed=st.integers(0, 99))
def test_the_share_is_kept_and_the_rest_is_less_certain(share: float, seed: int) -> None:
    batch = batch_of([[1.0, 0.0], [1.0, 0.0]], [[20, 7], [40, 33]], seed=seed).with_advantages(torch.ones(4))
    kept = operator("advantage", "entropy_share", share=share)(batch, context()) > 0
    assert abs(int(kept.sum()) - share * batch.num_tokens) <= 1
    if not bool(kept.all()):
        assert float(batch.entropies[kept].min()) > float(batch.entropies[~kept].max())


def test_random_tokens_are_drawn_anew_at_each_step_and_alike_on_repeat() -> None:
    batch = with_entropies([0.5] * 50)
    first, again, later = (
        operator("advantage", "entropy_share", share=0.5, keep="random")(batch, context(step)).tolist()
        for step in (0, 0, 1)
    )
    assert first == again != later


# --- DCPO


def test_smoothed_standard_by_hand() -> None:
    bound, memory = operator("advantage", "smoothed_standard", ddof=0, epsilon=1e-9), {}
    first = bound(batch_of([[1.0, 0.0]]), context(memory=memory))
    assert near(first, [1.0, -1.0])  # the first visit: nothing but the group
    second = bound(batch_of([[1.0, 1.0]]), context(memory=memory))
    # A_new = 0; of 1 0 1 1 the mean is 3/4 and the deviation sqrt(3)/4: A_total = 1/sqrt(3), half of it at visit 2
    assert near(second, [0.5 / 3**0.5] * 2)
    third = bound(batch_of([[0.0, 0.0]]), context(memory=memory))
    # of 1 0 1 1 0 0 the mean is 1/2, the deviation 1/2: A_total = -1, a third of it at visit 3
    assert near(third, [-1 / 3] * 2)


@given(visits=st.lists(st.lists(st.sampled_from([0.0, 0.1, 0.3, 1.0]), min_size=1, max_size=5), min_size=1, max_size=5))
def test_smoothed_standard_equals_a_loop_over_the_history(visits: list[list[float]]) -> None:
    bound, memory, history = operator("advantage", "smoothed_standard"), {}, []
    for number, group in enumerate(visits, start=1):
        found = bound(batch_of([group]), context(memory=memory))
        group = torch.tensor(group).double().tolist()
        history += group
        spreads = [statistics.stdev(v) if len(v) > 1 else 0.0 for v in (group, history)]
        for reward, advantage in zip(group, found.tolist(), strict=True):
            new = (reward - statistics.fmean(group)) / (spreads[0] + 1e-6)
            old = (reward - statistics.fmean(history)) / (spreads[1] + 1e-6)
            mixtures = [((number - 1) * new + old) / number, (new + (number - 1) * old) / number]
            assert abs(advantage) == pytest.approx(min(map(abs, mixtures)), abs=2e-5)


@pytest.mark.parametrize("reward", [0.1, 1.0])
def test_a_prompt_that_always_earned_the_same_has_no_advantage(reward: float) -> None:
    bound, memory = operator("advantage", "smoothed_standard"), {}
    for size in (3, 7, 2):
        assert bound(batch_of([[reward] * size]), context(memory=memory)).tolist() == [0.0] * size


def test_prompts_have_histories_of_their_own_and_a_repeat_within_a_step_is_a_visit() -> None:
    bound, memory = operator("advantage", "smoothed_standard"), {}
    bound(batch_of([[1.0, 0.0], [0.0, 0.0]]), context(memory=memory))
    batch = batch_of([[1.0, 0.0], [1.0, 1.0]])
    twice = replace(batch, prompts=(batch.prompts[0], batch.prompts[0]))
    bound(twice, context(memory=memory))
    assert {key: value[:2] for key, value in memory.items()} == {"p0": [3, 6], "p1": [1, 2]}


@given(st.lists(st.lists(st.floats(-5, 5), min_size=1, max_size=4), min_size=1, max_size=5))
def test_moments_do_not_depend_on_the_pieces(pieces: list[list[float]]) -> None:
    moments, flat = Moments(), [value for piece in pieces for value in piece]
    for piece in pieces:
        moments = moments.joined(piece)
    assert moments.count == len(flat)
    assert moments.mean == pytest.approx(statistics.fmean(flat), abs=1e-9)
    assert moments.spread(0) == pytest.approx(statistics.pstdev(flat), abs=1e-6)


def test_pass_rates_are_those_of_whole_groups_and_survive_a_cut() -> None:
    batch = batch_of([[1.0, 0.0, 0.0, 0.0], [1.0, 1.0]])
    marked = operator("annotate", "pass_rates")(batch, context())
    assert marked.extras["pass_rate_s"].tolist() == [0.25] * 4 + [1.0] * 2
    part = marked.select(torch.tensor([1, 4]))
    assert part.extras["pass_rate_s"].tolist() == [0.25, 1.0]
    assert rows_of(marked, marked.advantages) == rows_of(batch, batch.advantages)
