"""Presets' losses against loops written from the papers and the authors' released code."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from components.contract.operators import Bound
from components.modeling.packing.logprobs import TokenScores
from components.rl.batch.batch import Batch
from components.rl.step.context import SlotContext
from components.rl.step.learner import Learner, token_weights
from components.rl.step.scoring import frozen_logprobs
from components.rl.step.settings import StepSettings
from tests.rl.build import batch_of, context, near, noisy_scores, operator, rows_of
from tests.rl.methods.released import slots_of
from tests.rl.step.test_learner import learner, tiny

groups = st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=4), min_size=1, max_size=3)


def batch_with(lengths: list[list[int]]) -> Batch:
    batch = batch_of([[0.0] * len(group) for group in lengths], lengths)
    values = torch.randn(batch.num_responses, generator=torch.Generator().manual_seed(5))
    return batch.with_advantages(values)


# --- LUSPO


def test_luspo_by_hand() -> None:
    """Band 0.998 to 1.0025; a response counts its length times, over the number of responses."""
    batch = batch_of([[1.0, 0.0]], [[4, 2]]).with_advantages(torch.tensor([2.0, -1.0]))
    logs = torch.tensor([0.004] * 4 + [-0.001] * 2)  # ratios e^0.004 > 1.0025, e^-0.001 > 0.998
    slots = slots_of("luspo")
    result = slots.objective(TokenScores(batch.old_logprobs + logs, None), batch, context())
    assert near(result.loss, [-2 * 1.0025] * 4 + [math.exp(-0.001)] * 2)
    assert result.metrics["clip_fraction"].tolist() == [1.0] * 4 + [0.0] * 2
    total = (result.loss * token_weights(batch, "constant", 1)).sum()
    assert float(total) == pytest.approx((4 * -2 * 1.0025 + 2 * math.exp(-0.001)) / 2, abs=1e-5)


@given(groups)
def test_luspo_equals_a_loop(lengths: list[list[int]]) -> None:
    batch, slots = batch_with(lengths), slots_of("luspo")
    scores = noisy_scores(batch, spread=3e-3)
    found = slots.objective(scores, batch, context()).loss.detach()
    config = slots.objective_config
    assert config.constant is not None
    expected = 0.0
    pairs = zip(rows_of(batch, scores.logprobs - batch.old_logprobs), rows_of(batch, batch.advantages), strict=True)
    for logs, advantages in pairs:
        s, a = math.exp(sum(logs) / len(logs)), advantages[0]
        expected += len(logs) * -min(s * a, min(max(s, 1 - 0.002), 1 + 0.0025) * a) / batch.num_responses
    total = (found * token_weights(batch, config.denominator, config.constant)).sum()
    assert float(total) == pytest.approx(expected, abs=1e-5)


# --- ROVER


def test_rovers_two_scripts_are_its_preset_and_one_override() -> None:
    """Countdown centres rewards; mathematics also divides by their deviation, as group_mean_std does."""
    slots = slots_of("rover")
    batch = batch_of([[1.0, 0.0, 0.0, 0.0]], [[1, 1, 1, 1]])
    (centred,) = slots.advantages
    assert near(centred(batch, context()), [0.75, -0.25, -0.25, -0.25])
    (divided,) = slots_of("gspo").advantages
    deviation = math.sqrt((0.75**2 + 3 * 0.25**2) / 3)
    assert near(divided(batch, context()), [v / deviation for v in (0.75, -0.25, -0.25, -0.25)], 1e-5)
    for act, scale in ((centred, 1.0), (divided, 1 / deviation)):
        scored = batch.with_advantages(act(batch, context())).with_extras(mean_logprob_n=torch.full((4,), -2.0))
        logits = torch.zeros(4, 7)
        scores = TokenScores(scored.old_logprobs + 0.1, None, hidden=logits, logits_of=lambda hidden: hidden)
        loss = slots.objective(scores, scored, context()).loss
        assert near(loss, [(0.1 - scale * v) ** 2 for v in (0.75, -0.25, -0.25, -0.25)], 1e-5)  # no next token


# --- terms beside the objective


def total_of(method: str, batch: Batch, scores: TokenScores, limit: int) -> float:
    """Return the loss of a minibatch as the learner adds it up."""
    slots = slots_of(method)
    made = learner(tiny(), slots)
    weighted = made._weighted(batch, context(max_new_tokens=limit).settings)
    parts = [(bound(scores, weighted, context()).loss * made._weights(bound, weighted)).sum() for bound in slots.losses]
    return float(torch.stack(parts).sum().detach())


def mixed(lengths: list[list[int]]) -> tuple[Batch, TokenScores, list[list[float]]]:
    batch = batch_with(lengths)
    batch = replace(batch, reference_logprobs=batch.old_logprobs + 0.3)
    entropies = torch.rand(batch.num_tokens, generator=torch.Generator().manual_seed(1))
    scores = TokenScores((batch.old_logprobs + 0.1).requires_grad_(), entropies)
    return batch, scores, rows_of(batch, entropies)


@given(groups)
def test_rl_plus_takes_the_entropy_per_token_and_the_loss_per_limit(lengths: list[list[int]]) -> None:
    batch, scores, entropies = mixed(lengths)
    sums = [-math.exp(0.1) * sum(row) for row in rows_of(batch, batch.advantages)]
    flat = [value for row in entropies for value in row]
    expected = sum(sums) / len(sums) / 50 - 0.001 * sum(flat) / len(flat)
    assert total_of("rl-plus", batch, scores, 50) == pytest.approx(expected, abs=1e-6)


@given(groups)
def test_w_reinforce_has_the_entropy_term_of_its_release(lengths: list[list[int]]) -> None:
    batch, scores, entropies = mixed(lengths)
    flat = [value for row in entropies for value in row]
    ratio = math.exp(0.1)
    losses = [-min(ratio * a, min(ratio, 1.2) * a) for row in rows_of(batch, batch.advantages) for a in row]
    expected = (sum(losses) - 0.001 * sum(flat)) / len(flat)
    found = total_of("negative-reinforcement-w-reinforce", batch, scores, 50)
    assert found == pytest.approx(expected, abs=1e-6)


@given(groups)
def test_verl_has_the_kl_and_entropy_terms_of_its_release(lengths: list[list[int]]) -> None:
    batch, scores, entropies = mixed(lengths)
    flat = [value for row in entropies for value in row]
    ratio, gap = math.exp(0.1), 0.3 - 0.1
    per_row = [-min(ratio * row[0], min(ratio, 1.2) * row[0]) for row in rows_of(batch, batch.advantages)]
    expected = sum(per_row) / len(per_row) - 0.001 * sum(flat) / len(flat) + 0.001 * (math.exp(gap) - gap - 1)
    assert total_of("verl-effective-rank", batch, scores, 50) == pytest.approx(expected, abs=1e-6)


# --- Lp-Reg


def released_lp_reg(
    old: list[float], now: list[float], proxy: list[float], advantages: list[float], rho: float
) -> list[float]:
    """The released loss per token, with the upper bound of 10 on the ratio: the rarest k are pulled to the proxy."""
    ratios = [math.exp(b - a) for a, b in zip(old, now, strict=True)]
    pairs = zip(ratios, advantages, strict=True)
    losses = [max(-a * r, -a * min(max(r, 0.0), 10.0)) for r, a in pairs]
    negative = [n for n, a in enumerate(advantages) if a < 0]
    k = max(1, int(len(negative) * rho))
    if k > 1:
        for n in sorted(negative, key=lambda n: now[n])[:k]:
            if now[n] < proxy[n]:  # False for NaN, which the proxy drops
                gap = proxy[n] - now[n]
                losses[n] = -advantages[n] * ratios[n] + max(-10.0, min(10.0, math.exp(gap) - gap - 1))
    return losses


@given(groups, st.integers(0, 9), st.sampled_from([0.1, 0.5, 1.0]))
def test_lp_reg_equals_its_released_loss(lengths: list[list[int]], seed: int, rho: float) -> None:
    batch, slots = batch_with(lengths), slots_of("lp-reg")
    generator = torch.Generator().manual_seed(seed)
    noise = [torch.randn(batch.num_tokens, generator=generator) for _ in range(3)]
    now = batch.old_logprobs + noise[0]
    proxy = torch.where(noise[2] > 1, torch.nan, now + 2 * noise[1])
    batch = batch.with_extras(proxy_logprob_n=proxy, current_logprob_n=now)
    scores = TokenScores(now, None)
    (term,) = slots.regularizers
    term = operator("regularizer", "lp_reg", **{**term.config.model_dump(), "rho": rho})
    found = slots.objective(scores, batch, context()).loss + term(scores, batch, context()).loss
    expected = released_lp_reg(*(v.tolist() for v in (batch.old_logprobs, now, proxy, batch.advantages)), rho)
    assert near(found, expected, 1e-4)


def test_lp_reg_ranks_what_the_policy_says_before_each_update() -> None:
    """The second of two updates sees other log-probabilities than the first, and not those of the draw."""
    policy, seen = tiny(), []
    slots = slots_of("lp-reg")
    batch = batch_of([[1.0, 0.0], [0.0, 1.0]], [[3, 5], [2, 4]])
    own = frozen_logprobs(policy, batch, temperature=1.0, max_tokens=99)
    batch = replace(batch, old_logprobs=own - 0.3).with_advantages(torch.tensor([1.0, -1.0, -1.0, 1.0]))
    batch = batch.with_extras(proxy_logprob_n=own + 0.1)

    def context_of(bound: Bound) -> SlotContext:
        if bound.name == "lp_reg":
            seen.append(frozen_logprobs(policy, batch, temperature=1.0, max_tokens=99))
        return context()

    def watched(self: Learner, minibatch: Batch, settings: StepSettings) -> Batch:
        marked.append(plain(self, minibatch, settings).extras["current_logprob_n"])
        return plain(self, minibatch, settings)

    marked: list[torch.Tensor] = []
    plain = Learner._with_current
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Learner, "_with_current", watched)
        learner(policy, slots, epochs=2).learn([batch], context().settings, context_of, first_update=0)
    assert torch.allclose(marked[0], own, atol=1e-6) and not torch.allclose(marked[0], marked[1], atol=1e-5)
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(marked, seen, strict=True))
