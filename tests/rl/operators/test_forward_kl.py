"""RAPO's regularizer: values by hand, expectations on a small vocabulary, and which modes survive."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from components.modeling.packing.logprobs import TokenScores
from components.rl.batch.batch import Batch
from tests.rl.build import batch_of, context, gradient, near, operator


def vocabulary_batch(reference: torch.Tensor, right: bool = True) -> Batch:
    """One response whose token n is entry n of a vocabulary: a sum over its tokens is an exact expectation."""
    return replace(batch_of([[float(right)]], [[len(reference)]]), reference_logprobs=reference)


def test_values_and_gradient_by_hand() -> None:
    batch = replace(batch_of([[1.0, 0.0]], [[2, 1]]), reference_logprobs=torch.tensor([0.5, 0.25, 0.5]).log())
    scores = TokenScores(torch.tensor([0.25, 0.25, 0.25]).log().requires_grad_(), None)
    config = {"coefficient": 0.5, "wrong": 0.1}
    result = operator("regularizer", "forward_kl", **config)(scores, batch, context())
    far = 2 * math.log(2) - 1  # u = 2
    assert near(result.loss, [0.5 * far, 0.0, 0.05 * far])
    assert near(result.metrics["forward_kl"], [far, 0.0, far])
    assert near(gradient(scores, result.loss), [-0.5 * 2, -0.5, -0.05 * 2])
    held = operator("regularizer", "forward_kl", coefficient=1.0, max_ratio=1.5)(scores, batch, context())
    assert near(gradient(scores, held.loss), [-1.5, -1.0, -0.15])


@pytest.mark.parametrize("right", [True, False])
def test_value_and_gradient_are_those_of_the_weighted_forward_divergence(right: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    logits, other = (torch.randn(5, generator=generator, dtype=torch.float64) for _ in range(2))
    logits.requires_grad_()
    logp, reference = torch.log_softmax(logits, 0), torch.log_softmax(other, 0)
    act = operator("regularizer", "forward_kl", coefficient=1.0, wrong=0.1, max_ratio=1e9)
    loss = act(TokenScores(logp, None), vocabulary_batch(reference, right), context()).loss
    assert (loss.detach() >= 0).all()
    estimate = (logp.exp().detach() * loss).sum()
    exact = (1.0 if right else 0.1) * (reference.exp() * (reference - logp)).sum()
    assert estimate.item() == pytest.approx(exact.item())
    ours, theirs = (torch.autograd.grad(value, logits, retain_graph=True)[0] for value in (estimate, exact))
    assert torch.allclose(ours, theirs)


def test_nothing_is_pulled_at_the_reference_and_lost_tokens_stay_finite() -> None:
    reference = torch.tensor([0.0, -200.0, -1e4])
    scores = TokenScores(torch.tensor([0.0, -1.0, 0.0], requires_grad=True), None)
    loss = operator("regularizer", "forward_kl", coefficient=1.0)(scores, vocabulary_batch(reference), context()).loss
    assert near(loss, [0.0, 1.0, 1.0]) and gradient(scores, loss).isfinite().all()


def test_on_a_bandit_forward_divergence_keeps_all_modes_and_reverse_divergence_one() -> None:
    """Three arms, the reference on the first two, reward on the first and the third; optima in closed form."""
    beta, reward = 0.1, torch.tensor([1.0, 0.0, 1.0], dtype=torch.float64)
    reference = torch.tensor([0.49, 0.49, 0.02], dtype=torch.float64).log()
    low, high = 1.0 + 1e-9, 2.0  # forward: pi = beta reference / (m - reward), m such that it sums to 1
    for _ in range(80):
        middle = (low + high) / 2
        forward = beta * reference.exp() / (middle - reward)
        low, high = (middle, high) if float(forward.sum()) > 1 else (low, middle)
    logits = forward.log().requires_grad_()
    logp = torch.log_softmax(logits, 0)
    pull = operator("regularizer", "forward_kl", coefficient=beta, max_ratio=1e9)(
        TokenScores(logp, None), vocabulary_batch(reference), context()
    )
    loss = (logp.exp().detach() * pull.loss).sum() - (logp.exp() * reward).sum()
    (slope,) = torch.autograd.grad(loss, logits)
    assert slope.abs().max() < 1e-9  # it is where the operator's own gradient ends
    reverse = torch.softmax(reference + reward / beta, 0)
    assert float(reverse[1]) < 1e-4 and float(forward[1]) > 0.04  # the mode without reward
    assert float(forward[2]) > 0.03 and float(forward[[0, 2]].sum()) > 0.9  # and the reward is had
