"""ROVER: loss by loop, the theorem on a small tree, and its relation to the policy gradient."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from components.modeling.packing.logprobs import TokenScores, mean_logprobs
from components.rl.batch.batch import Batch
from components.rl.operators.objectives import rover as module
from components.rl.step.scoring import score_tokens
from tests.rl.build import batch_of, context, gradient, operator, rows_of
from tests.rl.step.test_learner import tiny


def scored(batch: Batch, vocabulary: int = 5, seed: int = 0) -> tuple[Batch, TokenScores, torch.Tensor, torch.Tensor]:
    """Return a batch with old means, scores over a vocabulary, and both policies' log-probabilities [N, V]."""
    generator = torch.Generator().manual_seed(seed)
    new, old = (torch.randn(batch.num_tokens, vocabulary, generator=generator) for _ in range(2))
    tokens = batch.tokens % vocabulary
    logs = [torch.log_softmax(logits, -1) for logits in (new, old)]
    picked = [log.gather(1, tokens.unsqueeze(1)).squeeze(1) for log in logs]
    batch = replace(batch, old_logprobs=picked[1]).with_extras(mean_logprob_n=logs[1].mean(1))
    scores = TokenScores(picked[0].clone().requires_grad_(), None, hidden=new, logits_of=lambda hidden: hidden)
    return batch, scores, *logs


@given(
    lengths=st.lists(st.lists(st.integers(1, 5), min_size=1, max_size=3), min_size=1, max_size=3),
    rho=st.sampled_from([1.0, 0.5]),
    beta=st.sampled_from([0.0, 1.0]),
)
def test_loss_and_gradient_equal_a_loop_over_the_formula(lengths: list[list[int]], rho: float, beta: float) -> None:
    batch, scores, new, old = scored(batch_of([[0.0] * len(group) for group in lengths], lengths))
    batch = batch.with_advantages(torch.linspace(-0.5, 0.5, batch.num_responses))
    result = operator("objective", "rover", rho=rho, beta=beta)(scores, batch, context())
    slopes = rows_of(batch, gradient(scores, result.loss))
    losses, q = (
        rows_of(batch, result.loss.detach()),
        rows_of(batch, rho * (scores.logprobs.detach() - batch.old_logprobs)),
    )
    advantages, n = rows_of(batch, batch.advantages), 0
    for row, length in enumerate(batch.lengths.tolist()):
        for t in range(length):
            target = advantages[row][t]
            if t + 1 < length:
                target += beta * rho * sum(float(new[n + 1, v] - old[n + 1, v]) for v in range(5)) / 5
            assert losses[row][t] == pytest.approx((q[row][t] - target) ** 2, abs=1e-4)
            assert slopes[row][t] == pytest.approx(2 * rho * (q[row][t] - target), abs=1e-4)
            n += 1


def test_the_first_update_has_twice_the_gradient_of_the_policy_gradient() -> None:
    batch, _, _, old = scored(batch_of([[1.0, 0.0]], [[3, 2]]))
    batch = batch.with_advantages(torch.tensor([0.5, -0.5]))
    scores = TokenScores(batch.old_logprobs.clone().requires_grad_(), None, hidden=old, logits_of=lambda hidden: hidden)
    ours = gradient(scores, operator("objective", "rover")(scores, batch, context()).loss)
    plain = gradient(scores, operator("objective", "policy_gradient")(scores, batch, context()).loss)
    assert torch.allclose(ours, 2 * plain, atol=1e-6)


def test_softmax_of_the_uniform_policys_value_prefers_every_right_path() -> None:
    """A tree of depth 2 with 3 branches; two of nine leaves are right. Q of the uniform policy, exactly."""
    right = torch.zeros(3, 3, dtype=torch.float64)
    right[0, 2] = right[1, 0] = 1.0
    q_second = right
    q_first = right.mean(1)  # the uniform policy goes on from there
    policy = torch.softmax(q_first / 0.05, 0).unsqueeze(1) * torch.softmax(q_second / 0.05, 1)
    assert float(policy[right > 0].sum()) > 0.99
    assert float(policy[0, 2]) == pytest.approx(float(policy[1, 0]))
    assert q_first.argmax() in (0, 1) and float(q_first[2]) == 0.0


def test_at_the_minimum_the_log_ratio_of_a_last_token_is_its_centred_reward() -> None:
    batch, _, _, old = scored(batch_of([[1.0, 0.0]], [[1, 1]]))
    batch = batch.with_advantages(torch.tensor([0.5, -0.5]))
    free = batch.old_logprobs.clone().requires_grad_()
    for _ in range(200):
        scores = TokenScores(free, None, hidden=old, logits_of=lambda hidden: hidden)
        slope = gradient(scores, operator("objective", "rover", rho=2.0)(scores, batch, context()).loss)
        free = (free - 0.05 * slope).detach().requires_grad_()
    assert torch.allclose(2.0 * (free - batch.old_logprobs), batch.advantages, atol=1e-3)


def test_the_old_means_are_those_of_the_policy_at_the_steps_temperature(monkeypatch: pytest.MonkeyPatch) -> None:
    policy, batch = tiny(), batch_of([[1.0, 0.0], [1.0]], [[3, 2], [4]])
    collector = SimpleNamespace(max_tokens=9)
    marked = operator("annotate", "vocabulary_means")(
        batch, context(temperature=0.7, policies=SimpleNamespace(trained=policy), collector=collector)
    )
    scores = score_tokens(policy, batch, temperature=0.7)
    expected = torch.log_softmax(scores.logits_at(torch.arange(batch.num_tokens)), -1).mean(-1)
    assert torch.allclose(marked.extras["mean_logprob_n"], expected, atol=1e-5)
    monkeypatch.setattr(module, "CHUNK_ROWS", 2)
    assert torch.allclose(module._mean_logprobs(scores), expected, atol=1e-5)
    assert mean_logprobs(torch.tensor([[0.0, 0.0]])).item() == pytest.approx(-0.6931472)
