"""Mirror descent: by hand, against a loop over its formula, and where it meets the policy gradient."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from components.modeling.packing.logprobs import TokenScores
from components.rl.step.learner import token_weights
from tests.rl.build import batch_of, context, gradient, near, noisy_scores, operator, rows_of

lengths_of_groups = st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=4), min_size=1, max_size=3)


def test_by_hand() -> None:
    batch = batch_of([[1.0, 0.0]], [[2, 1]]).with_advantages(torch.tensor([0.5, -0.5]))
    scores = TokenScores((batch.old_logprobs + torch.tensor([0.1, 0.2, -1.0])).requires_grad_(), None)
    result = operator("objective", "mirror_descent", tau=2.0)(scores, batch, context())
    first = -0.5 * scores.logprobs[:2].sum().item() + 0.3**2
    second = 0.5 * scores.logprobs[2].item() + 1.0
    assert near(result.loss, [first, first, second], 1e-5)
    assert near(result.metrics["mirror_distance"], [0.09, 0.09, 1.0], 1e-5)
    # over the mean of two responses: (-A + tau * log-ratio) / 2 at each token
    found = gradient(scores, result.loss * token_weights(batch, "responses", 1))
    assert near(found, [(-0.5 + 0.6) / 2, (-0.5 + 0.6) / 2, (0.5 - 2.0) / 2], 1e-5)


def test_the_mean_is_over_responses_of_any_length() -> None:
    assert operator("objective", "mirror_descent").config.denominator == "responses"


@given(lengths=lengths_of_groups, tau=st.sampled_from([0.0, 0.05, 1.0]), seed=st.integers(0, 9))
@settings(max_examples=40)
def test_equals_a_loop_over_the_formula(lengths: list[list[int]], tau: float, seed: int) -> None:
    batch = batch_of([[1.0] * len(group) for group in lengths], lengths, seed=seed)
    advantages = torch.randn(batch.num_responses, generator=torch.Generator().manual_seed(seed))
    batch = batch.with_advantages(advantages)
    scores = noisy_scores(batch, seed=seed)
    result = operator("objective", "mirror_descent", tau=tau)(scores, batch, context())
    loss = float((result.loss.detach() * token_weights(batch, "responses", 1)).sum())
    new, old = rows_of(batch, scores.logprobs), rows_of(batch, batch.old_logprobs)
    terms = [
        -advantage * sum(now) + tau / 2 * (sum(now) - sum(before)) ** 2
        for advantage, now, before in zip(advantages.tolist(), new, old, strict=True)
    ]
    assert loss == pytest.approx(sum(terms) / len(terms), rel=1e-4, abs=1e-4)


def test_the_first_update_is_the_policy_gradient_over_whole_responses() -> None:
    batch = batch_of([[1.0, 0.0, 0.0]], [[3, 1, 2]]).with_advantages(torch.tensor([1.0, -0.5, 0.0]))
    scores = noisy_scores(batch, spread=0.0)
    mirror = operator("objective", "mirror_descent", tau=5.0)(scores, batch, context()).loss
    plain = operator("objective", "policy_gradient")(scores, batch, context()).loss
    weights = token_weights(batch, "responses", 1), token_weights(batch, "constant", 1)
    assert torch.allclose(gradient(scores, mirror * weights[0]), gradient(scores, plain * weights[1]), atol=1e-6)


def test_a_response_without_advantage_is_drawn_back() -> None:
    batch = batch_of([[1.0]], [[2]]).with_advantages(torch.zeros(1))
    scores = TokenScores((batch.old_logprobs + 0.5).requires_grad_(), None)
    bound = operator("objective", "mirror_descent", tau=1.0)
    assert near(gradient(scores, bound(scores, batch, context()).loss), [2.0, 2.0], 1e-5)  # two tokens hold the loss
    assert not bound.config.silent_at_zero  # type: ignore[attr-defined]
