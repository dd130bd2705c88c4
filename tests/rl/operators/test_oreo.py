"""OREO: losses by hand and by loop, its fixed point, and the offline set that comes back."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from components.modeling.packing.logprobs import TokenScores
from components.rl.batch.batch import Batch
from tests.rl.build import batch_of, context, gradient, near, noisy_scores, operator, rows_of


def prepared(lengths: list[list[int]], seed: int = 0) -> Batch:
    rewards = [[float((i + j) % 2) for j in range(len(group))] for i, group in enumerate(lengths)]
    batch = batch_of(rewards, lengths, seed=seed)
    generator = torch.Generator().manual_seed(seed + 1)
    values, noise = (torch.randn(batch.num_tokens, generator=generator) for _ in range(2))
    return replace(batch, values=values, reference_logprobs=batch.old_logprobs + 0.3 * noise)


def test_policy_loss_by_hand() -> None:
    batch = replace(batch_of([[1.0]], [[2]]), values=torch.tensor([0.5, 0.8]), reference_logprobs=torch.zeros(2) - 1)
    scores = TokenScores(torch.tensor([-0.5, -2.0], requires_grad=True), None)
    result = operator("objective", "oreo", beta=0.1)(scores, batch, context())
    # c = 0.5, -1; residuals 0.5 - 1 + 0.1 * (0.5 - 1), 0.8 - 1 + 0.1 * -1
    assert near(result.loss, [0.55**2, 0.3**2])
    # only c_t has a gradient at t: 2 residual beta
    assert near(gradient(scores, result.loss), [2 * -0.55 * 0.1, 2 * -0.3 * 0.1])
    whole = operator("objective", "oreo", beta=0.1, granularity="response")(scores, batch, context())
    assert near(whole.loss, [0.55**2] * 2)
    assert near(gradient(scores, whole.loss / 2), [2 * -0.55 * 0.1] * 2)


@given(lengths=st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=3), min_size=1, max_size=3))
def test_losses_and_targets_equal_a_loop_over_the_formula(lengths: list[list[int]]) -> None:
    batch, beta = prepared(lengths), 0.07
    scores = noisy_scores(batch)
    loss = rows_of(batch, operator("objective", "oreo", beta=beta)(scores, batch, context()).loss.detach())
    target = rows_of(batch, operator("critic", "path_consistency", beta=beta)(batch, context()))
    columns = (scores.logprobs.detach(), batch.old_logprobs, batch.reference_logprobs, batch.values)
    for row, (new, old, reference, values) in enumerate(zip(*(rows_of(batch, c) for c in columns), strict=True)):
        reward = float(batch.rewards[row])
        for t in range(len(new)):
            rest_new = sum(new[i] - reference[i] for i in range(t, len(new)))
            rest_old = sum(old[i] - reference[i] for i in range(t, len(new)))
            assert loss[row][t] == pytest.approx((values[t] - reward + beta * rest_new) ** 2, abs=1e-5)
            assert target[row][t] == pytest.approx(reward - beta * rest_old, abs=1e-5)


def test_the_soft_bellman_solution_of_a_tree_has_no_loss() -> None:
    """Two tokens of two kinds; only the path (0, 0) is rewarded. V and pi in closed form, every path consistent."""
    beta = 0.5
    reference = torch.tensor([[0.7, 0.3], [0.6, 0.4], [0.5, 0.5]], dtype=torch.float64)  # at the root, after 0, after 1
    reward = torch.tensor([[1.0, 0.0], [0.0, 0.0]], dtype=torch.float64)
    inner = beta * torch.log((reference[1:] * torch.exp(reward / beta)).sum(1))
    root = beta * torch.log((reference[0] * torch.exp(inner / beta)).sum())
    policy = torch.stack([reference[0] * torch.exp((inner - root) / beta)]).squeeze(0)
    second = reference[1:] * torch.exp((reward - inner.unsqueeze(1)) / beta)
    for first in range(2):
        for then in range(2):
            batch = batch_of([[float(reward[first, then])]], [[2]])
            chances = [(policy[first], second[first, then]), (reference[0, first], reference[1 + first, then])]
            logs = [torch.stack(pair).log() for pair in chances]
            batch = replace(batch, reference_logprobs=logs[1], values=torch.stack([root, inner[first]]))
            scores = TokenScores(logs[0], None)
            assert near(operator("objective", "oreo", beta=beta)(scores, batch, context()).loss, [0.0, 0.0])
            done = replace(batch, old_logprobs=logs[0])
            assert near(operator("critic", "path_consistency", beta=beta)(done, context()), batch.values.tolist())
    assert float(policy.sum()) == pytest.approx(1) and float(policy[0]) > 0.7


def test_offline_divergence_has_the_expectation_and_gradient_it_claims() -> None:
    generator = torch.Generator().manual_seed(0)
    logits, other = (torch.randn(5, generator=generator, dtype=torch.float64) for _ in range(2))
    reference = torch.log_softmax(other, 0)
    logits.requires_grad_()
    logp = torch.log_softmax(logits, 0)
    batch = replace(batch_of([[1.0]], [[5]]), reference_logprobs=reference)
    loss = operator("regularizer", "offline_kl", coefficient=1.0)(TokenScores(logp, None), batch, context()).loss
    assert (loss.detach() >= 0).all()
    estimate = (reference.exp() * loss).sum()
    exact = (logp.exp() * (logp - reference)).sum()
    assert estimate.item() == pytest.approx(exact.item())
    ours, theirs = (torch.autograd.grad(value, logits, retain_graph=True)[0] for value in (estimate, exact))
    assert torch.allclose(ours, theirs)
