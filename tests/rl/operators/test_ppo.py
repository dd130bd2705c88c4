"""PPO with a critic: advantages and value targets by hand, against a loop, and against TRL's own recursion."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from components.rl.batch.batch import Batch
from components.rl.batch.returns import at_last, next_in_response, suffix_sum
from tests.rl.build import batch_of, context, near, operator, rows_of


def with_values(batch: Batch, values: list[float] | None = None, seed: int = 0) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(batch.num_tokens, generator=generator) if values is None else torch.tensor(values)
    return replace(batch, values=drawn)


def test_advantages_and_targets_by_hand() -> None:
    # one response of three tokens, reward 1, values 0.5, 0.25, 0.5; gamma 1, lambda 0.5
    batch = with_values(batch_of([[1.0]], [[3]]), [0.5, 0.25, 0.5])
    # d: 0.25 - 0.5, 0.5 - 0.25, 1 - 0.5 = -0.25, 0.25, 0.5; A3 = 0.5, A2 = 0.25 + 0.25, A1 = -0.25 + 0.25
    found = operator("advantage", "gae", lam=0.5, whiten=False)(batch, context())
    assert near(found, [0.0, 0.5, 0.5])
    assert near(operator("critic", "lambda_return", lam=0.5)(batch, context()), [0.5, 0.75, 1.0])


def test_discount_by_hand() -> None:
    batch = with_values(batch_of([[1.0]], [[2]]), [0.0, 0.4])
    # d: 0.9 * 0.4, 1 - 0.4; A1 = 0.36 + 0.9 * 0.5 * 0.6
    found = operator("advantage", "gae", gamma=0.9, lam=0.5, whiten=False)(batch, context())
    assert near(found, [0.36 + 0.27, 0.6])


lengths = st.lists(st.lists(st.integers(1, 7), min_size=1, max_size=4), min_size=1, max_size=3)


@given(lengths=lengths, gamma=st.sampled_from([0.9, 1.0]), lam=st.sampled_from([0.0, 0.5, 0.95, 1.0]))
def test_gae_equals_the_double_sum_of_its_definition(lengths: list[list[int]], gamma: float, lam: float) -> None:
    rewards = [[float((i + j) % 2) for j in range(len(group))] for i, group in enumerate(lengths)]
    batch = with_values(batch_of(rewards, lengths))
    found = rows_of(batch, operator("advantage", "gae", gamma=gamma, lam=lam, whiten=False)(batch, context()))
    for row, values in enumerate(rows_of(batch, batch.values)):
        last = len(values) - 1
        delta = [
            (float(batch.rewards[row]) if t == last else gamma * values[t + 1]) - values[t] for t in range(last + 1)
        ]
        expected = [sum((gamma * lam) ** (k - t) * delta[k] for k in range(t, last + 1)) for t in range(last + 1)]
        assert near(found[row], expected, 1e-5)


@given(lengths=lengths, lam=st.sampled_from([0.0, 0.95, 1.0]))
def test_gae_equals_trl(lengths: list[list[int]], lam: float) -> None:
    # the recursion of TRL's PPOTrainer.train (1.16), on tensors padded as it pads them
    batch = with_values(batch_of([[1.0] * len(group) for group in lengths], lengths))
    width, size = int(batch.lengths.max()), batch.num_responses
    values, rewards = torch.zeros(size, width), torch.zeros(size, width)
    values[batch.response_of, batch.positions] = batch.values
    rewards[torch.arange(size), batch.lengths - 1] = batch.rewards
    lastgaelam, reversed_advantages = torch.zeros(size), []
    for t in reversed(range(width)):
        nextvalues = values[:, t + 1] if t < width - 1 else 0.0
        delta = rewards[:, t] + nextvalues - values[:, t]
        lastgaelam = delta + lam * lastgaelam
        reversed_advantages.append(lastgaelam)
    theirs = torch.stack(reversed_advantages[::-1], 1)[batch.response_of, batch.positions]
    ours = operator("advantage", "gae", lam=lam, whiten=False)(batch, context())
    assert torch.allclose(ours, theirs, atol=1e-5)


def test_lambda_1_and_0_are_return_minus_value_and_one_step() -> None:
    batch = with_values(batch_of([[1.0, 0.0], [1.0]], [[3, 4], [1]]))
    long = operator("advantage", "gae", lam=1.0, whiten=False)(batch, context())
    assert torch.allclose(long, batch.to_tokens(batch.rewards) - batch.values, atol=1e-6)
    assert torch.allclose(
        operator("critic", "lambda_return", lam=1.0)(batch, context()), batch.to_tokens(batch.rewards), atol=1e-6
    )
    short = operator("advantage", "gae", lam=0.0, whiten=False)(batch, context())
    one_step = at_last(batch, batch.rewards) + next_in_response(batch, batch.values) - batch.values
    assert torch.allclose(short, one_step)


def test_whitened_advantages_have_mean_0_and_spread_1() -> None:
    batch = with_values(batch_of([[1.0, 0.0], [1.0, 0.0]], [[3, 4], [5, 2]]))
    found = operator("advantage", "gae")(batch, context())
    assert float(found.mean()) == pytest.approx(0, abs=1e-6) and float(found.std()) == pytest.approx(1, abs=1e-5)
    single = with_values(batch_of([[1.0]], [[1]]))
    assert operator("advantage", "gae")(single, context()).isfinite().all()


def test_sums_from_the_end_stay_inside_a_response_and_keep_precision() -> None:
    batch = batch_of([[1.0, 0.0]], [[2, 3]])
    assert near(suffix_sum(batch, torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0])), [3, 2, 12, 9, 5])
    assert near(suffix_sum(batch, torch.tensor([1.0, 2.0, 4.0, 4.0, 4.0]), 0.5), [2, 2, 7, 6, 4])
    long = batch_of([[1.0] * 64], [[500] * 64])
    values = torch.rand(long.num_tokens, generator=torch.Generator().manual_seed(0)) + 1e3
    sums = suffix_sum(long, values)[long.positions == 0]
    assert near(sums / 500, [float(part.double().mean()) for part in values.split(500)], 1e-4)
