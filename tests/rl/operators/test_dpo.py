"""DPO on pairs: by hand, against a loop, its gradient, and what it refuses."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from components.contract.errors import InputError
from components.modeling.packing.logprobs import TokenScores
from components.rl.batch.batch import Batch
from components.rl.step.learner import token_weights
from components.rl.step.scoring import frozen_logprobs
from tests.rl.build import batch_of, context, gradient, near, noisy_scores, operator, rows_of
from tests.rl.step.test_learner import assert_equal, gradients, learner, slots_of, tiny


def pairs(lengths: list[list[int]], suffix: torch.Tensor | None = None, seed: int = 0) -> Batch:
    batch = batch_of([[1.0, 0.0]] * len(lengths), lengths, seed=seed)
    noise = torch.randn(batch.num_tokens, generator=torch.Generator().manual_seed(seed + 1)) * 0.5
    batch = replace(batch, reference_logprobs=batch.old_logprobs + noise)
    return batch if suffix is None else batch.with_extras(suffix_n=suffix)


def test_by_hand() -> None:
    batch = replace(pairs([[2, 1]]), reference_logprobs=torch.tensor([-1.0, -2.0, -3.0]))
    scores = TokenScores(torch.tensor([-0.5, -1.0, -4.0]), None)
    found = operator("objective", "dpo", beta=0.5)(scores, batch, context())
    # log-ratios 0.5 + 1.0 against -1.0: margin 0.5 * 2.5
    assert near(found.loss, [math.log1p(math.exp(-1.25))] * 3)
    assert near(found.metrics["dpo_margin"], [1.25] * 3) and near(found.metrics["dpo_accuracy"], [1.0] * 3)
    part = batch.with_extras(suffix_n=torch.tensor([False, True, False]))
    assert near(operator("objective", "dpo", beta=0.5)(scores, part, context()).loss, [math.log1p(math.exp(-0.5))] * 3)


@given(st.lists(st.lists(st.integers(1, 5), min_size=2, max_size=2), min_size=1, max_size=4), st.integers(0, 9))
def test_a_loop_over_the_formula_and_its_gradient(lengths: list[list[int]], seed: int) -> None:
    tokens = sum(map(sum, lengths))
    suffix = torch.rand(tokens, generator=torch.Generator().manual_seed(seed)) > 0.4
    batch = pairs(lengths, suffix, seed)
    scores = noisy_scores(batch, seed=seed)
    columns = (scores.logprobs.detach(), batch.reference_logprobs, suffix.float())
    ratios = [
        sum((new - old) * mark for new, old, mark in zip(*row, strict=True))
        for row in zip(*(rows_of(batch, column) for column in columns), strict=True)
    ]
    margins = [0.1 * (ratios[2 * pair] - ratios[2 * pair + 1]) for pair in range(len(lengths))]
    found = operator("objective", "dpo")(scores, batch, context())
    total = (found.loss * token_weights(batch, "responses", 1)).sum()
    expected = sum(math.log1p(math.exp(-margin)) for margin in margins) / len(lengths)
    assert float(total.detach()) == pytest.approx(expected, abs=1e-5)
    slopes = gradient(scores, total)
    pushes = iter(suffix.tolist())
    by_hand = []
    for pair, (right, wrong) in enumerate(lengths):
        push = 0.1 / (1 + math.exp(margins[pair])) / len(lengths)
        by_hand += [(-push if row == 0 else push) * next(pushes) for row in (0, 1) for _ in range((right, wrong)[row])]
    assert near(slopes, by_hand, 1e-5)


def test_micro_batches_do_not_change_the_update(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = tiny("float64")
    batch = pairs([[3, 5], [4, 1], [6, 2]])
    batch = replace(batch, reference_logprobs=frozen_logprobs(policy, batch, temperature=1.0, max_tokens=99) - 0.1)
    slots = slots_of("per-step-negatives")
    whole, metrics = gradients(learner(tiny("float64"), slots), batch, monkeypatch)
    small, same = gradients(learner(tiny("float64"), slots, micro=8), batch, monkeypatch)
    assert_equal(whole, small)
    assert metrics["loss"] == pytest.approx(same["loss"], abs=1e-6)


@pytest.mark.parametrize("rewards", [[[1.0, 1.0]], [[1.0, 0.0, 0.0]], [[0.0]]])
def test_other_groups_are_refused(rewards: list[list[float]]) -> None:
    batch = batch_of(rewards)
    batch = replace(batch, reference_logprobs=batch.old_logprobs)
    with pytest.raises(InputError, match="one right and one wrong"):
        operator("objective", "dpo")(noisy_scores(batch), batch, context())
