"""OREO's two losses against loops written from the authors' released trainer, which averages by response first."""

from __future__ import annotations

import statistics
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from components.rl.batch.batch import Batch
from components.rl.configs import CriticConfig
from components.rl.step.critic import ValueModel
from components.rl.step.learner import token_weights
from tests.rl.build import batch_of, context, gradient, near, noisy_scores, rows_of
from tests.rl.methods.released import slots_of
from tests.rl.step.test_learner import tiny

BETA = 0.03
groups = st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=3), min_size=1, max_size=3)


def prepared(lengths: list[list[int]]) -> Batch:
    batch = batch_of([[float((i + j) % 2) for j in range(len(row))] for i, row in enumerate(lengths)], lengths)
    generator = torch.Generator().manual_seed(1)
    values, noise = (torch.randn(batch.num_tokens, generator=generator) for _ in range(2))
    return replace(batch, values=values, reference_logprobs=batch.old_logprobs + 0.3 * noise)


def mean_of_means(rows: list[list[float]]) -> float:
    return statistics.fmean(statistics.fmean(row) for row in rows)


@given(groups)
def test_the_policys_loss_equals_the_released_one(lengths: list[list[int]]) -> None:
    """Square of beta (c_t + the later c, without gradient) + V_t - R; a mean of means."""
    batch, slots = prepared(lengths), slots_of("oreo")
    scores = noisy_scores(batch)
    weights = token_weights(batch, slots.objective_config.denominator, 1)
    total = (slots.objective(scores, batch, context()).loss * weights).sum()
    columns = (scores.logprobs.detach(), batch.reference_logprobs, batch.values)
    squares, slopes = [], []
    for reward, (logp, reference, values) in zip(
        batch.rewards.tolist(), zip(*(rows_of(batch, c) for c in columns), strict=True), strict=True
    ):
        costs = [a - b for a, b in zip(logp, reference, strict=True)]
        residuals = [BETA * sum(costs[t:]) + values[t] - reward for t in range(len(costs))]
        squares.append([r**2 for r in residuals])
        slopes += [2 * BETA * r / len(residuals) / batch.num_responses for r in residuals]
    assert float(total.detach()) == pytest.approx(mean_of_means(squares), abs=1e-5)
    assert near(gradient(scores, total), slopes, 1e-6)


def critic_of(**changes: object) -> tuple[ValueModel, CriticConfig]:
    config = slots_of("oreo").critic.config
    assert isinstance(config, CriticConfig)
    config = config.model_copy(update={"clip_norm": None, **changes})
    return ValueModel(tiny("float64"), config, micro_batch_tokens=99), config


@given(groups)
def test_the_critics_loss_is_half_the_released_one(lengths: list[list[int]]) -> None:
    batch = prepared(lengths)
    target_n = slots_of("oreo").critic(batch, context())
    made, _ = critic_of()
    rows = []
    for reward, (old, reference) in zip(
        batch.rewards.tolist(),
        zip(rows_of(batch, batch.old_logprobs), rows_of(batch, batch.reference_logprobs), strict=True),
        strict=True,
    ):
        costs = [a - b for a, b in zip(old, reference, strict=True)]
        rows.append([(BETA * sum(costs[t:]) + 0.0 - reward) ** 2 for t in range(len(costs))])  # values begin at 0
    found = made.fit(replace(batch, values=torch.zeros(batch.num_tokens)), target_n)
    assert found["critic_loss"] == pytest.approx(mean_of_means(rows) / 2, rel=1e-5)


def test_by_hand_a_long_response_counts_as_much_as_a_short_one() -> None:
    """Errors 1 on one token and 0 on three: a half of the mean is 1/4 by response, 1/8 by token."""
    batch = replace(batch_of([[1.0, 0.0]], [[1, 3]]), values=torch.zeros(4))
    targets = torch.tensor([1.0, 0.0, 0.0, 0.0])
    for denominator, loss in (("responses", 1 / 4), ("tokens", 1 / 8)):
        made, _ = critic_of(denominator=denominator)
        assert made.fit(batch, targets)["critic_loss"] == pytest.approx(loss)


@pytest.mark.parametrize("minibatches", [1, 2])
def test_pieces_of_a_batch_and_missing_targets_change_nothing(minibatches: int) -> None:
    batch = prepared([[3, 1, 4], [2, 5]])
    targets = slots_of("oreo").critic(batch, context())
    targets[3] = torch.nan  # the only token of the second response
    targets[5] = torch.nan
    whole, _ = critic_of(minibatches=minibatches)
    start = tiny("float64")
    config = whole.config.model_copy()
    pieces = ValueModel(start, config, micro_batch_tokens=7)
    first, second = (made.fit(batch, targets) for made in (whole, pieces))
    assert first["critic_loss"] == pytest.approx(second["critic_loss"], rel=1e-6)
    assert first["critic_grad_norm"] == pytest.approx(second["critic_grad_norm"], rel=1e-5)
    if minibatches == 1:
        rows = rows_of(batch, targets.square() / 2)
        kept = [[v for v in row if v == v] for row in rows]
        assert first["critic_loss"] == pytest.approx(mean_of_means([row for row in kept if row]), rel=1e-5)
