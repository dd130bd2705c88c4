"""PACS: loss, weights and gradient by hand and against torch and scikit-learn's formulas."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from components.modeling.packing.logprobs import TokenScores
from components.rl.batch.batch import Batch
from components.rl.step.learner import token_weights
from tests.rl.build import batch_of, context, gradient, near, noisy_scores, operator, rows_of


def loss_of(batch: Batch, scores: TokenScores, **config: object) -> torch.Tensor:
    found = operator("objective", "pacs", denominator="responses", **config)(scores, batch, context())
    return (found.loss * token_weights(batch, "responses", 1)).sum()


def test_a_group_by_hand() -> None:
    batch = batch_of([[1.0, 0.0, 0.0]], [[2, 1, 1]])
    shift = torch.tensor([0.3, 0.3, -0.3, -0.6])
    scores = TokenScores(batch.old_logprobs + shift, None)
    # scores 0.6, -0.3, -0.6; minus the mean of the others: 1.05, -0.3, -0.75; weights 3 / 2 and 3 / 4
    plain = [math.log1p(math.exp(-psi)) for psi in (1.05, 0.3, 0.75)]
    terms = [1.5 * plain[0], 0.75 * plain[1], 0.75 * plain[2]]
    assert float(loss_of(batch, scores)) == pytest.approx(sum(terms) / 3, abs=1e-6)
    assert float(loss_of(batch, scores, balanced=False)) == pytest.approx(sum(plain) / 3, abs=1e-6)
    accuracy = operator("objective", "pacs")(scores, batch, context()).metrics["pacs_accuracy"]
    assert accuracy.tolist() == [1.0, 1.0, 1.0, 1.0]


def test_before_any_update_a_response_is_pushed_by_right_minus_a_half() -> None:
    # psi = 0: d loss / d score_i = -(w (R - 1/2)) centred over the group as leave-one-out does
    batch = batch_of([[1.0, 0.0, 1.0, 0.0]], [[1, 1, 1, 1]])
    scores = TokenScores(batch.old_logprobs.clone().requires_grad_(), None)
    found = gradient(scores, operator("objective", "pacs", balanced=False)(scores, batch, context()).loss)
    push = batch.rewards - 0.5
    expected = -(push - (push.sum() - push) / 3)
    assert near(found, expected.tolist())


@given(
    sizes=st.lists(st.integers(2, 5), min_size=1, max_size=3),
    centring=st.sampled_from(["leave_one_out", "standardise", "none"]),
    score=st.sampled_from(["logratio_sum", "logprob_mean"]),
    seed=st.integers(0, 5),
)
def test_the_loss_equals_a_loop_over_the_formula(sizes: list[int], centring: str, score: str, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    rewards = [torch.randint(0, 2, (size,), generator=generator).tolist() for size in sizes]
    lengths = [torch.randint(1, 5, (size,), generator=generator).tolist() for size in sizes]
    batch = batch_of([[float(r) for r in group] for group in rewards], lengths, seed=seed)
    scores = noisy_scores(batch, seed=seed)
    new, old = rows_of(batch, scores.logprobs.detach()), rows_of(batch, batch.old_logprobs)
    total, row = 0.0, 0
    for group in rewards:
        values = []
        for offset in range(len(group)):
            a, b = new[row + offset], old[row + offset]
            values.append(0.7 * (sum(a) - sum(b) if score == "logratio_sum" else sum(a) / len(a)))
        for i, label in enumerate(group):
            others = [v for j, v in enumerate(values) if j != i]
            psi = {"leave_one_out": values[i] - sum(others) / len(others), "none": values[i]}.get(centring)
            if psi is None:
                spread = torch.tensor(values).std()  # of the scores themselves
                psi = float((values[i] - sum(values) / len(values)) / (spread + 1e-6))
            count = group.count(label)
            weight = len(group) / (2 * count) if count < len(group) else 1.0
            total += weight * (math.log1p(math.exp(-psi)) if label else math.log1p(math.exp(psi)))
        row += len(group)
    found = loss_of(batch, scores, centring=centring, score=score, beta=0.7)
    assert float(found.detach()) == pytest.approx(total / row, abs=2e-4)


def test_the_gradient_is_a_policy_gradient_weighted_by_right_minus_sigmoid() -> None:
    # through one response alone (no centring): d loss_i / d log pi(y_i) = -beta w (R - sigmoid(psi))
    batch = batch_of([[1.0, 0.0]], [[3, 2]])
    scores = noisy_scores(batch)
    config = {"centring": "none", "balanced": False, "beta": 2.0}
    per_response = operator("objective", "pacs", **config)(scores, batch, context()).loss / batch.to_tokens(
        batch.lengths
    )
    found = gradient(scores, per_response)
    psi = 2.0 * batch.response_sum(scores.logprobs.detach() - batch.old_logprobs)
    expected = -2.0 * (batch.rewards - psi.sigmoid())
    assert torch.allclose(found, batch.to_tokens(expected), atol=1e-6)


def test_equal_scores_of_a_group_leave_finite_gradients() -> None:
    batch = batch_of([[1.0, 0.0], [1.0]], [[2, 2], [2]])
    scores = TokenScores(batch.old_logprobs.clone().requires_grad_(), None)
    for centring in ("leave_one_out", "standardise", "none"):
        found = gradient(scores, operator("objective", "pacs", centring=centring)(scores, batch, context()).loss)
        assert found.isfinite().all()
