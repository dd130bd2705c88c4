"""Lp-Reg: the proxy and the choice of tokens by hand and by loop, and that pieces of a batch change nothing."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from components.modeling.packing.logprobs import TokenScores
from components.rl.batch.batch import Batch
from components.rl.operators.annotate.min_p_proxy import proxy_logprobs
from components.rl.operators.regularizers.lp_reg import rare_below
from components.rl.step.scoring import score_tokens
from tests.rl.build import batch_of, context, gradient, near, noisy_scores, operator, rows_of
from tests.rl.step.test_learner import tiny


def test_the_proxy_by_hand() -> None:
    logits = torch.tensor([[0.6, 0.3, 0.09, 0.01]] * 4).log()
    tokens = torch.arange(4)
    # min-p 0.1: below 0.06 is noise, the rest is divided by 0.99
    kept = proxy_logprobs(logits, tokens, 0.1, True)
    assert near(kept[:3].exp(), [0.6 / 0.99, 0.3 / 0.99, 0.09 / 0.99]) and kept[3].isnan()
    # a fixed threshold of 0.1 drops the third token too
    fixed = proxy_logprobs(logits, tokens, 0.1, False)
    assert near(fixed[:2].exp(), [0.6 / 0.9, 0.3 / 0.9]) and fixed[2:].isnan().all()


@given(st.lists(st.floats(-4, 4), min_size=2, max_size=8), st.sampled_from([0.02, 0.1, 0.5]), st.booleans())
def test_the_proxy_equals_a_loop_over_the_vocabulary(logits: list[float], kappa: float, relative: bool) -> None:
    chances = torch.softmax(torch.tensor(logits, dtype=torch.float64), 0).tolist()
    threshold = kappa * max(chances) if relative else kappa
    if min(abs(p - threshold) for p in chances) < 1e-9:
        return  # on the edge rounding decides
    kept = [p for p in chances if p >= threshold]
    rows = torch.tensor([logits] * len(logits), dtype=torch.float64)
    found = proxy_logprobs(rows, torch.arange(len(logits)), kappa, relative)
    for place, chance in enumerate(chances):
        if chance >= threshold:
            assert float(found[place]) == pytest.approx(math.log(chance / sum(kept)), abs=1e-6)
        else:
            assert found[place].isnan()


def marked(lengths: list[list[int]], seed: int = 0) -> Batch:
    batch = batch_of([[0.0] * len(group) for group in lengths], lengths, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    proxy = batch.old_logprobs + 0.2 * torch.rand(batch.num_tokens, generator=generator)
    proxy[torch.rand(batch.num_tokens, generator=generator) < 0.3] = torch.nan
    batch = batch.with_advantages(torch.randn(batch.num_responses, generator=generator))
    moved = batch.old_logprobs + 0.5 * torch.randn(batch.num_tokens, generator=generator)
    return batch.with_extras(proxy_logprob_n=proxy, current_logprob_n=moved)


@given(
    lengths=st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=4), min_size=1, max_size=3),
    rho=st.sampled_from([0.01, 0.3, 1.0]),
    seed=st.integers(0, 9),
)
def test_the_term_equals_a_loop_over_its_conditions(lengths: list[list[int]], rho: float, seed: int) -> None:
    batch = marked(lengths, seed)
    scores = noisy_scores(batch, seed=seed)
    result = operator("regularizer", "lp_reg", rho=rho, coefficient=0.5)(scores, batch, context())
    marks = (batch.extras["current_logprob_n"], batch.extras["proxy_logprob_n"])
    new, now, proxy, advantages = (values.tolist() for values in (scores.logprobs.detach(), *marks, batch.advantages))
    rare = sorted(q for q, a in zip(now, advantages, strict=True) if a < 0)
    edge = rare[count - 1] if (count := int(len(rare) * rho)) > 1 else -math.inf
    slopes = gradient(scores, result.loss).tolist()
    for n, loss in enumerate(result.loss.tolist()):
        chosen = advantages[n] < 0 and now[n] <= edge and not math.isnan(proxy[n]) and new[n] < proxy[n]
        gap = proxy[n] - new[n] if chosen else 0.0
        held = math.exp(gap) - gap - 1 > 10
        assert loss == pytest.approx(5.0 if held else 0.5 * (math.exp(gap) - gap - 1), abs=1e-5)
        assert slopes[n] == pytest.approx(0.0 if held else 0.5 * (1 - math.exp(gap)), abs=1e-5)
        assert bool(result.metrics["lp_reg_share"][n]) == chosen


def test_pieces_of_a_minibatch_choose_as_the_whole() -> None:
    batch = marked([[3, 5], [4, 2, 6]])
    scores = noisy_scores(batch)
    act = operator("regularizer", "lp_reg", rho=0.4)
    whole = act(scores, batch, context(minibatch=batch)).loss.detach()
    for rows in (torch.tensor([0, 1]), torch.tensor([2]), torch.tensor([3, 4])):
        part, places = batch.select(rows), batch.tokens_of(rows)
        found = act(TokenScores(scores.logprobs.detach()[places], None), part, context(minibatch=batch)).loss
        assert torch.equal(found, whole[places])


def test_a_batch_without_wrong_responses_is_left_alone() -> None:
    batch = replace(marked([[2, 3]]), advantages=torch.ones(5))
    assert float(rare_below(batch, 0.5)) == -math.inf
    scores = noisy_scores(batch)
    loss = operator("regularizer", "lp_reg")(scores, batch, context()).loss
    assert near(loss, [0.0] * 5) and near(gradient(scores, loss), [0.0] * 5)


def test_marks_come_from_the_old_policy_at_the_steps_temperature() -> None:
    policy, batch = tiny(), batch_of([[1.0, 0.0], [1.0]], [[3, 2], [4]])
    made = context(temperature=0.7, policies=SimpleNamespace(trained=policy), collector=SimpleNamespace(max_tokens=9))
    found = rows_of(batch, operator("annotate", "min_p_proxy", kappa=0.9)(batch, made).extras["proxy_logprob_n"])
    logits = score_tokens(policy, batch, temperature=0.7).logits_at(torch.arange(batch.num_tokens))
    expected = rows_of(batch, proxy_logprobs(logits, batch.tokens, 0.9, True))
    for ours, theirs in zip(found, expected, strict=True):
        assert ours == pytest.approx(theirs, abs=1e-5, nan_ok=True)
