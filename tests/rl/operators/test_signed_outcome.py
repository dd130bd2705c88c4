"""PSR, NSR and W-REINFORCE: advantages, the modes as special cases, and where the freed probability goes."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from components.modeling.packing.logprobs import token_logprobs
from components.rl.step.learner import token_weights
from tests.rl.build import batch_of, context, gradient, near, noisy_scores, operator


@pytest.mark.parametrize(
    "config, values",
    [({}, [0.1, -1.0, -1.0]), ({"positive": 0.0}, [0, -1, -1]), ({"positive": 1.0, "negative": 0.0}, [1, 0, 0])],
)
def test_modes_by_hand(config: dict[str, float], values: list[float]) -> None:
    assert near(operator("advantage", "signed_outcome", **config)(batch_of([[1.0, 0.0, 0.0]]), context()), values)


def test_the_reward_scale_is_without_effect() -> None:
    batch = batch_of([[5.0, -3.0]])
    assert near(operator("advantage", "signed_outcome")(batch, context()), [0.1, -1.0])


def test_weight_1_is_reinforce_with_rewards_of_1_and_minus_1() -> None:
    batch = batch_of([[1.0, -1.0], [-1.0, -1.0]], [[2, 3], [1, 4]])
    ours = operator("advantage", "signed_outcome", positive=1.0)(batch, context())
    assert torch.equal(ours, operator("advantage", "plain_reward")(batch, context()))


def test_the_loss_is_lambda_psr_plus_nsr_over_all_tokens() -> None:
    batch = batch_of([[1.0, 0.0], [0.0, 1.0]], [[2, 3], [1, 4]])
    scores = noisy_scores(batch, spread=0.0)
    batch = batch.with_advantages(operator("advantage", "signed_outcome", positive=0.1)(batch, context()))
    loss = (operator("objective", "ppo_clip")(scores, batch, context()).loss * token_weights(batch, "tokens", 1)).sum()
    slope = gradient(scores, loss)
    # on policy: -0.1 / 10 on each token of right responses, +1 / 10 on each of wrong ones
    assert near(slope, [-0.01] * 2 + [0.1] * 3 + [0.1] * 1 + [-0.01] * 4)


@given(st.lists(st.floats(-2, 2), min_size=3, max_size=6), st.integers(0, 2))
def test_what_a_wrong_token_loses_goes_to_the_others_by_their_prior(logits: list[float], token: int) -> None:
    """Descent on +log pi_v moves z_v by -(1 - pi_v) and every other z_u by +pi_u; PSR is its mirror image."""
    for sign in (1.0, -1.0):
        free = torch.tensor([logits], dtype=torch.float64, requires_grad=True)
        (sign * token_logprobs(free, torch.tensor([token]))).sum().backward()
        assert free.grad is not None
        move, probability = -sign * free.grad[0], torch.softmax(free.detach()[0], 0)
        for other in range(len(logits)):
            expected = -(1 - probability[other]) if other == token else probability[other]
            assert float(move[other]) == pytest.approx(float(expected), abs=1e-9)
