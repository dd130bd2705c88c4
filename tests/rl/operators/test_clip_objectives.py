"""GSPO, LUSPO, CISPO, DHPO, DCPO and ETR: by hand, against loops over the formulas, and where they meet each other."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from torch import Tensor

from components.modeling.packing.logprobs import TokenScores
from components.rl.batch.batch import Batch
from components.rl.batch.surrogate import sequence_ratio, sequence_ratio_of_tokens
from components.rl.operators.objectives.adaptive_clip import AdaptiveClipConfig, adaptive_bounds
from components.rl.params import RLParams
from components.rl.step.learner import token_weights
from tests.rl.build import batch_of, context, gradient, near, noisy_scores, operator, rows_of

lengths_of_groups = st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=4), min_size=1, max_size=3)


def batch_with(lengths: list[list[int]], seed: int = 5) -> Batch:
    """Return a batch with random advantages per response, some rewards of 1, and marked pass rates."""
    generator = torch.Generator().manual_seed(seed)
    rewards = [(torch.rand(len(group), generator=generator) < 0.5).float().tolist() for group in lengths]
    batch = batch_of(rewards, lengths)
    batch = batch.with_advantages(torch.randn(batch.num_responses, generator=generator))
    return operator("annotate", "pass_rates")(batch, context())


def loss_of(name: str, scores: TokenScores, batch: Batch, **config: Any) -> Tensor:
    return operator("objective", name, **config)(scores, batch, context(minibatch=batch)).loss


def total(loss: Tensor, batch: Batch, denominator: str, constant: int = 1) -> float:
    return float((loss.detach() * token_weights(batch, denominator, constant)).sum())  # type: ignore[arg-type]


def surrogate(ratio: float, advantage: float, low: float, high: float) -> float:
    return -min(ratio * advantage, max(low, min(high, ratio)) * advantage)


def log_ratios(scores: TokenScores, batch: Batch) -> list[list[float]]:
    return rows_of(batch, (scores.logprobs - batch.old_logprobs).detach())


# --- GSPO and LUSPO


def test_sequence_clip_by_hand() -> None:
    batch = batch_of([[1.0, 0.0]], [[2, 2]])
    ratios = torch.tensor([1.21, 1.0, 0.64, 1.0])  # geometric means 1.1 and 0.8
    batch = replace(batch, advantages=torch.tensor([2.0, 2.0, -1.0, -1.0]))
    result = operator("objective", "sequence_clip", clip_low=0.1, clip_high=0.05)(
        TokenScores(batch.old_logprobs + ratios.log(), None), batch, context()
    )
    assert near(result.loss, [-2.1, -2.1, 0.9, 0.9])
    assert result.metrics["clip_fraction"].tolist() == [1.0, 1.0, 1.0, 1.0]
    assert near(result.metrics["sequence_ratio_gap"], [0.1, 0.1, 0.2, 0.2])


@given(lengths=lengths_of_groups, low=st.sampled_from([3e-4, 0.1]), high=st.sampled_from([4e-4, 0.2]))
@settings(max_examples=40)
def test_gspo_and_luspo_equal_loops_over_their_formulas(lengths: list[list[int]], low: float, high: float) -> None:
    batch = batch_with(lengths)
    scores = noisy_scores(batch)
    advantages = [row[0] for row in rows_of(batch, batch.advantages)]
    terms = []
    for row, advantage in zip(log_ratios(scores, batch), advantages, strict=True):
        terms.append((len(row), surrogate(math.exp(sum(row) / len(row)), advantage, 1 - low, 1 + high)))
    loss = loss_of("sequence_clip", scores, batch, clip_low=low, clip_high=high)
    gspo = sum(term for _, term in terms) / len(terms)
    luspo = sum(size * term for size, term in terms) / len(terms)
    mean_length = sum(size for size, _ in terms) / len(terms)
    assert total(loss, batch, "responses") == pytest.approx(gspo, abs=1e-5)
    assert total(loss, batch, "constant") == pytest.approx(luspo, abs=1e-4)
    assert total(loss, batch, "tokens") == pytest.approx(luspo / mean_length, abs=1e-5)


@pytest.mark.parametrize("length", [1, 4])
def test_with_equal_lengths_luspo_is_gspo_times_the_length(length: int) -> None:
    batch = batch_with([[length] * 3, [length] * 2])
    loss = loss_of("sequence_clip", noisy_scores(batch), batch)
    assert total(loss, batch, "constant") == pytest.approx(length * total(loss, batch, "responses"), rel=1e-5)


def test_luspo_weighs_tokens_of_short_and_long_responses_alike_and_gspo_does_not() -> None:
    batch = batch_of([[1.0, 1.0]], [[2, 8]]).with_advantages(torch.ones(2))
    for denominator, ratio in (("constant", 1.0), ("tokens", 1.0), ("responses", 4.0)):
        scores = noisy_scores(batch, spread=0.0)
        loss = loss_of("sequence_clip", scores, batch) * token_weights(batch, denominator, 1)  # type: ignore[arg-type]
        found = gradient(scores, loss)
        assert float(found[0] / found[-1]) == pytest.approx(ratio)


def test_gspo_token_has_the_ratio_and_the_gradient_of_gspo() -> None:
    batch = batch_with([[3, 5], [1]])
    scores = noisy_scores(batch)
    of_tokens, of_sequences = sequence_ratio_of_tokens(scores, batch), sequence_ratio(scores, batch)
    assert torch.allclose(of_tokens, batch.to_tokens(of_sequences))
    token_mean = gradient(scores, of_tokens * token_weights(batch, "responses", 1))
    of_mean = gradient(scores, of_sequences / batch.num_responses)
    assert torch.allclose(token_mean, of_mean, atol=1e-7)


# --- CISPO


def test_weight_clip_by_hand_and_no_token_loses_its_gradient() -> None:
    batch = replace(batch_of([[1.0]], [[3]]), advantages=torch.tensor([1.0, 1.0, -2.0]))
    logprobs = (batch.old_logprobs + torch.tensor([1.5, 9.0, 0.1]).log()).requires_grad_()
    scores = TokenScores(logprobs, None)
    result = operator("objective", "weight_clip", weight_min=0.2, weight_max=5.0)(scores, batch, context())
    expected = [-1.5 * logprobs[0].item(), -5.0 * logprobs[1].item(), 0.4 * logprobs[2].item()]
    assert near(result.loss, expected, 1e-5)
    assert result.metrics["weight_clip_fraction"].tolist() == [0.0, 1.0, 1.0]
    assert near(gradient(scores, result.loss), [-1.5, -5.0, 0.4], 1e-5)


# --- DHPO


@pytest.mark.parametrize("mix", ["arithmetic", "geometric"])
@given(lengths=lengths_of_groups)
@settings(max_examples=20)
def test_dhpo_reaches_grpo_and_gspo_at_its_ends(mix: str, lengths: list[list[int]]) -> None:
    batch = batch_with(lengths)
    weights = token_weights(batch, "responses", 1)
    bands = {"token_clip_low": 0.2, "token_clip_high": 0.28, "sequence_clip_low": 0.05, "sequence_clip_high": 0.04}
    for share, name, config in (
        (1.0, "ppo_clip", {"clip_low": 0.2, "clip_high": 0.28}),
        (0.0, "sequence_clip", {"clip_low": 0.05, "clip_high": 0.04}),
    ):
        scores = noisy_scores(batch)
        mixed = loss_of("hybrid_clip", scores, batch, weight="constant", token_share=share, mix=mix, **bands)
        own = loss_of(name, scores, batch, **config)
        assert total(mixed, batch, "responses") == pytest.approx(total(own, batch, "responses"), abs=1e-5)
        assert torch.allclose(gradient(scores, mixed * weights), gradient(scores, own * weights), atol=1e-6)


def test_a_branch_that_is_cut_has_no_gradient_and_the_other_keeps_its_own() -> None:
    batch = replace(batch_of([[1.0]], [[2]]), advantages=torch.tensor([1.0, 1.0]))
    # token ratios 2 and 0.5: the sequence ratio is 1, inside its band; the first token is cut at 1.2
    scores = TokenScores((batch.old_logprobs + torch.tensor([2.0, 0.5]).log()).requires_grad_(), None)
    loss = loss_of("hybrid_clip", scores, batch, weight="constant", token_share=0.5, token_clip_high=0.2)
    assert near(loss, [-(0.5 * 1.2 + 0.5), -(0.5 * 0.5 + 0.5)])
    assert near(gradient(scores, loss), [-0.5, -(0.25 + 0.5)])


@pytest.mark.parametrize("highest_of, shares", [("response", [0.5, 1.0, 1.0]), ("minibatch", [0.25, 0.5, 1.0])])
def test_the_entropy_gives_the_token_branch_its_share(highest_of: str, shares: list[float]) -> None:
    batch = replace(batch_of([[1.0, 0.0]], [[2, 1]]), entropies=torch.tensor([0.2, 0.4, 0.8]))
    first = batch.select(torch.tensor([0]))
    bound = operator("objective", "hybrid_clip", highest_of=highest_of)
    whole = bound(noisy_scores(batch), batch, context(minibatch=batch)).metrics["token_branch_share"]
    part = bound(noisy_scores(first), first, context(minibatch=batch)).metrics["token_branch_share"]
    assert near(whole, shares) and near(part, shares[:2])


def test_without_any_entropy_the_sequence_branch_decides() -> None:
    batch = batch_with([[2, 3]])
    batch = replace(batch, entropies=torch.zeros(batch.num_tokens))
    loss = loss_of("hybrid_clip", noisy_scores(batch), batch)
    assert near(loss, loss_of("hybrid_clip", noisy_scores(batch), batch, weight="constant", token_share=0.0).tolist())


# --- DCPO


def test_dcpo_bounds_by_hand() -> None:
    config = AdaptiveClipConfig()
    lower, upper = adaptive_bounds(torch.tensor([0.01, 0.64, 1.0], dtype=torch.float64).log(), config)
    # q = 0.01: 1/2 + 1/2 sqrt(81) = 5; q = 0.64: sqrt(1 + 0.8 / 0.64) = 1.5; and 4 * 0.16 = 0.64, so the root is 0
    assert near(upper, [5.0, 1.25, 0.5 + 0.5 * math.sqrt(1.8)])
    assert near(lower, [0.5, 0.5, 0.8])


@given(logprob=st.floats(-30, 0), low=st.floats(0, 1), high=st.floats(0, 1))
def test_dcpo_bounds_hold_one_and_solve_their_constraint(logprob: float, low: float, high: float) -> None:
    config = AdaptiveClipConfig(clip_low=low, clip_high=high, ratio_max=10.0)
    (lower,), (upper,) = (b.tolist() for b in adaptive_bounds(torch.tensor([logprob], dtype=torch.float64), config))
    q = math.exp(logprob)
    assert 0.5 <= lower <= 1.0 <= upper <= 10.0
    if upper < 10.0:
        assert (upper - 1) * upper * q == pytest.approx(high, abs=1e-9)
    if lower > 0.5:
        assert (1 - lower) * lower * q == pytest.approx(low, abs=1e-9)


@given(lengths=lengths_of_groups)
@settings(max_examples=20)
def test_dcpo_equals_a_loop_over_its_formula(lengths: list[list[int]]) -> None:
    batch = batch_with(lengths)
    scores = noisy_scores(batch, spread=1.5)
    expected = []
    parts = (rows_of(batch, value) for value in (batch.old_logprobs, batch.advantages))
    rows = zip(log_ratios(scores, batch), *parts, strict=True)
    for row in rows:
        for log_ratio, logprob, advantage in zip(*row, strict=True):
            q = math.exp(logprob)
            low = 0.5 + 0.5 * math.sqrt(max(1 - 4 * 0.16 / q, 0))
            high = min(10, 0.5 + 0.5 * math.sqrt(1 + 4 * 0.2 / q))
            expected.append(surrogate(min(10, math.exp(log_ratio)), advantage, low, high))
    assert near(loss_of("adaptive_clip", scores, batch), expected, 1e-4)


def test_dcpo_stops_a_runaway_ratio_whatever_its_sign() -> None:
    batch = replace(batch_of([[1.0]], [[2]]), advantages=torch.tensor([1.0, -1.0]))
    scores = TokenScores((batch.old_logprobs + math.log(20)).requires_grad_(), None)
    result = operator("objective", "adaptive_clip")(scores, batch, context())
    assert gradient(scores, result.loss).tolist() == [0.0, 0.0]
    assert result.metrics["clip_fraction"].tolist() == [1.0, 1.0]


# --- ETR


@given(lengths=lengths_of_groups)
@settings(max_examples=20)
def test_etr_without_elasticity_is_grpo(lengths: list[list[int]]) -> None:
    batch = batch_with(lengths)
    scores = noisy_scores(batch)
    fixed = loss_of("ppo_clip", scores, batch)
    elastic = loss_of("elastic_clip", scores, batch, advantage_factor=0.0, variance_factor=0.0)
    assert torch.equal(elastic, fixed)
    assert torch.equal(gradient(scores, elastic), gradient(scores, fixed))


def test_etr_bands_by_hand() -> None:
    # p = 1/2: macro factor 1.5; |A| = 1.5 of 3: micro factor 1.25; |A| = 9: 1.5; p = 1: macro factor 1
    batch = batch_of([[1.0, 0.0], [1.0]], [[1, 1], [1]]).with_advantages(torch.tensor([1.5, -9.0, 3.0]))
    batch = operator("annotate", "pass_rates")(batch, context())
    ratios = torch.tensor([2.0, 0.1, 2.0])
    scores = TokenScores(batch.old_logprobs + ratios.log(), None)
    result = operator("objective", "elastic_clip", clip_low=0.2, clip_high=0.4)(scores, batch, context())
    assert near(result.loss, [-1.75 * 1.5, 9 * (1 - 0.2 * 1.5 * 1.5), -1.6 * 3], 1e-5)


def test_etr_logs_the_clip_among_rare_right_responses() -> None:
    batch = batch_of([[1.0, 0.0, 0.0, 0.0]], [[1, 1, 1, 1]]).with_advantages(torch.tensor([1.5, -0.5, -0.5, -0.5]))
    batch = operator("annotate", "pass_rates")(batch, context())
    scores = TokenScores(batch.old_logprobs + torch.tensor([3.0, 0.1, 1.0, 1.0]).log(), None)
    metrics = operator("objective", "elastic_clip")(scores, batch, context()).metrics
    assert metrics["rare_right_share"].tolist() == metrics["rare_right_clipped"].tolist() == [1.0, 0.0, 0.0, 0.0]
    assert metrics["clip_fraction"].tolist() == [1.0, 1.0, 0.0, 0.0]


def test_etr_says_what_it_needs() -> None:
    with pytest.raises(
        ValidationError, match="reads 'pass_rate_s', which no operator before it writes; add annotate oper"
    ):
        RLParams.model_validate({"objective": "elastic_clip"})
