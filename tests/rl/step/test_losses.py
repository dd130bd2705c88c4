"""Objectives, regularizers and denominators: by hand, and against loops written from the formulas."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from components.modeling.packing.logprobs import TokenScores
from components.rl.batch.batch import Batch
from components.rl.configs import Denominator
from components.rl.step.kl_estimates import kl_estimates
from components.rl.step.learner import token_weights
from tests.rl.build import batch_of, context, near, operator, rows_of

DENOMINATORS: tuple[Denominator, ...] = ("tokens", "responses", "groups", "constant")


def scores_near(batch: Batch, *, spread: float = 0.4, seed: int = 3) -> TokenScores:
    """Return new log-probabilities around the old ones, with a gradient, and entropies."""
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(batch.num_tokens, generator=generator) * spread
    entropies = torch.rand(batch.num_tokens, generator=generator)
    return TokenScores((batch.old_logprobs + noise).requires_grad_(), entropies.requires_grad_())


def with_random_advantages(batch: Batch, seed: int = 5) -> Batch:
    values = torch.randn(batch.num_responses, generator=torch.Generator().manual_seed(seed))
    return batch.with_advantages(values)


def test_ppo_clip_by_hand() -> None:
    batch = batch_of([[1.0, 0.0]], [[3, 3]])
    ratios = torch.tensor([1.0, 1.5, 0.5, 1.0, 1.5, 0.5])
    batch = replace(batch, advantages=torch.tensor([2.0, 2.0, 2.0, -1.0, -1.0, -1.0]))
    scores = TokenScores(batch.old_logprobs + ratios.log(), None)
    result = operator("objective", "ppo_clip", clip_low=0.2, clip_high=0.28)(scores, batch, context())
    # gains: up to 1.28 * 2; 0.5 * 2 stays (pessimistic); for A = -1, 1.5 stays, 0.5 is held at 0.8
    assert near(result.loss, [-2.0, -2.56, -1.0, 1.0, 1.5, 0.8])
    assert result.metrics["clip_fraction"].tolist() == [0.0, 1.0, 0.0, 0.0, 0.0, 1.0]


def test_clipped_tokens_have_no_gradient() -> None:
    batch = replace(batch_of([[1.0]], [[2]]), advantages=torch.tensor([1.0, 1.0]))
    logprobs = (batch.old_logprobs + torch.tensor([1.5, 1.1]).log()).requires_grad_()
    operator("objective", "ppo_clip")(TokenScores(logprobs, None), batch, context()).loss.sum().backward()
    assert logprobs.grad is not None
    assert near(logprobs.grad, [0.0, -1.1])


def test_policy_gradient_by_hand_and_its_gradient() -> None:
    batch = replace(batch_of([[1.0]], [[2]]), advantages=torch.tensor([2.0, -3.0]))
    logprobs = torch.tensor([-1.0, -0.5], requires_grad=True)
    loss = operator("objective", "policy_gradient")(TokenScores(logprobs, None), batch, context()).loss
    assert loss.tolist() == [2.0, -1.5]
    loss.sum().backward()
    assert logprobs.grad is not None and logprobs.grad.tolist() == [-2.0, 3.0]


def test_on_policy_clip_has_the_gradient_of_the_policy_gradient() -> None:
    batch = with_random_advantages(batch_of([[1.0, 0.0], [0.0, 1.0]], [[2, 4], [1, 3]]))
    gradients = []
    for name in ("ppo_clip", "policy_gradient"):
        logprobs = batch.old_logprobs.clone().requires_grad_()
        operator("objective", name)(TokenScores(logprobs, None), batch, context()).loss.sum().backward()
        gradients.append(logprobs.grad)
    assert torch.allclose(*gradients)


@pytest.mark.parametrize(
    "estimator, values",
    [
        ("k1", [math.log(2), -math.log(2)]),
        ("k2", [math.log(2) ** 2 / 2] * 2),
        ("k3", [0.5 - 1 + math.log(2), 2 - 1 - math.log(2)]),
    ],
)
def test_kl_estimators_by_hand(estimator: str, values: list[float]) -> None:
    batch = replace(batch_of([[1.0]], [[2]]), reference_logprobs=torch.tensor([0.25, 0.5]).log())
    scores = TokenScores(torch.tensor([0.5, 0.25]).log(), None)
    result = operator("regularizer", "kl", estimator=estimator, coefficient=0.5)(scores, batch, context())
    assert near(result.loss, [0.5 * value for value in values])
    assert near(kl_estimates(scores.logprobs, batch.reference_logprobs)[estimator], values)


def test_kl_estimators_have_the_expectations_and_gradients_they_claim() -> None:
    # an exact expectation over a vocabulary of 5, tokens weighted by their probability under the policy
    generator = torch.Generator().manual_seed(0)
    logits, other = (torch.randn(5, generator=generator, dtype=torch.float64) for _ in range(2))
    reference = torch.log_softmax(other, 0)

    def gradients(estimator: str | None, forward: bool = False) -> tuple[float, Tensor]:
        weights = logits.clone().requires_grad_()
        logp = torch.log_softmax(weights, 0)
        if estimator is None:
            exact = (reference.exp() * (reference - logp)) if forward else (logp.exp() * (logp - reference))
            loss = exact.sum()
        else:
            batch = replace(batch_of([[1.0]], [[5]]), reference_logprobs=reference)
            token_loss = operator("regularizer", "kl", estimator=estimator, coefficient=1.0)(
                TokenScores(logp, None), batch, context()
            )
            loss = (logp.exp().detach() * token_loss.loss).sum()
        loss.backward()
        assert weights.grad is not None
        return float(loss.detach()), weights.grad

    reverse, forward = gradients(None), gradients(None, forward=True)
    k1, k2, k3 = (gradients(name) for name in ("k1", "k2", "k3"))
    assert k1[0] == pytest.approx(reverse[0]) and k3[0] == pytest.approx(reverse[0])
    assert torch.allclose(k1[1], torch.zeros(5, dtype=torch.float64), atol=1e-12)
    assert torch.allclose(k2[1], reverse[1])
    assert torch.allclose(k3[1], forward[1])


def test_entropy_bonus_lowers_the_loss() -> None:
    batch = batch_of([[1.0]], [[2]])
    scores = TokenScores(batch.old_logprobs, torch.tensor([0.5, 2.0]))
    assert near(operator("regularizer", "entropy", coefficient=0.1)(scores, batch, context()).loss, [-0.05, -0.2])


def test_token_weights_by_hand() -> None:
    batch = batch_of([[1.0, 0.0], [1.0]], [[1, 3], [2]])
    assert near(token_weights(batch, "tokens", 10), [1 / 6] * 6)
    assert near(token_weights(batch, "responses", 10), [1 / 3] + [1 / 9] * 3 + [1 / 6] * 2)
    assert near(token_weights(batch, "groups", 10), [1 / 8] * 4 + [1 / 4] * 2)
    assert near(token_weights(batch, "constant", 10), [1 / 30] * 6)


@given(
    lengths=st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=4), min_size=1, max_size=4),
    denominator=st.sampled_from(DENOMINATORS),
    low=st.sampled_from([0.1, 0.2]),
    high=st.sampled_from([0.2, 0.28]),
)
@settings(max_examples=50)
def test_the_whole_loss_equals_a_loop_over_the_formula(
    lengths: list[list[int]], denominator: Denominator, low: float, high: float
) -> None:
    batch = with_random_advantages(batch_of([[0.0] * len(group) for group in lengths], lengths))
    batch = replace(batch, reference_logprobs=batch.old_logprobs - 0.3)
    scores = scores_near(batch)
    losses = [
        operator("objective", "ppo_clip", clip_low=low, clip_high=high)(scores, batch, context()),
        operator("regularizer", "kl", estimator="k3", coefficient=0.04)(scores, batch, context()),
    ]
    weights = token_weights(batch, denominator, 20)
    found = sum(float((loss.loss.detach() * weights).sum()) for loss in losses)
    assert found == pytest.approx(_loop(batch, scores.logprobs, denominator, low, high), abs=1e-5)


def _loop(batch: Batch, logprobs: Tensor, denominator: Denominator, low: float, high: float) -> float:
    new, old = rows_of(batch, logprobs), rows_of(batch, batch.old_logprobs)
    reference, advantages = rows_of(batch, batch.reference_logprobs), rows_of(batch, batch.advantages)
    per_response = []
    for row in range(batch.num_responses):
        terms = []
        for t in range(len(new[row])):
            ratio, a = math.exp(new[row][t] - old[row][t]), advantages[row][t]
            clipped = max(1 - low, min(1 + high, ratio))
            drift = reference[row][t] - new[row][t]
            terms.append(-min(ratio * a, clipped * a) + 0.04 * (math.exp(drift) - drift - 1))
        per_response.append(terms)
    if denominator == "tokens":
        return sum(map(sum, per_response)) / sum(map(len, per_response))
    if denominator == "responses":
        return sum(sum(terms) / len(terms) for terms in per_response) / len(per_response)
    if denominator == "constant":
        return sum(map(sum, per_response)) / (len(per_response) * 20)
    groups = [
        [t for t, g in zip(per_response, batch.group.tolist(), strict=True) if g == index]
        for index in range(batch.num_prompts)
    ]
    return sum(sum(map(sum, group)) / sum(map(len, group)) for group in groups) / len(groups)
