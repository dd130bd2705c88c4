from __future__ import annotations

import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from components.contract.errors import InputError
from components.modeling.loading.load import new_policy
from components.modeling.models.model_config import ModelConfig
from components.modeling.supervised.examples import Example
from components.modeling.supervised.trainer import accumulate_gradients
from components.modeling.text.tokenizer import train_tokenizer
from components.modeling.training.build import build_trainer
from components.modeling.training.optimizer import OptimizerConfig
from components.tasks.weights import row_weights

torch.set_num_threads(1)

TOKENIZER = train_tokenizer([], {"sums": ["Add 1 to 2.", "Add 3 to 4."]})
POLICY = new_policy(ModelConfig(width=16, layers=2, heads=2, mlp_width=24), tokenizer=TOKENIZER, seed=0)
TRAINER = build_trainer(POLICY, OptimizerConfig(), total_steps=1)


def test_weights_are_shares_of_the_largest_and_one_without_any() -> None:
    assert row_weights([{"weight": 2}, {"weight": 0.5}, {}]) == [1.0, 0.25, 0.5]
    assert row_weights([{}, {}]) == [1.0, 1.0]
    assert row_weights([]) == []
    assert row_weights([{"weight": sys.float_info.max}, {"weight": 1.0}]) == [1.0, 0.0]  # negligible beside it


@given(weight=st.floats(1e-300, sys.float_info.max), count=st.integers(1, 5))
def test_equal_weights_are_exactly_one(weight: float, count: int) -> None:
    assert row_weights([{"weight": weight}] * count) == [1.0] * count


@pytest.mark.parametrize(
    "weight", [-1, float("nan"), float("inf"), 10**400, True, None, "2", [1]], ids=lambda value: repr(value)[:8]
)
def test_what_is_no_weight_is_refused_with_its_row(weight: object) -> None:
    with pytest.raises(InputError, match=r"row 2 \(b\): weight .* is no finite number from 0"):
        row_weights([{"id": "a"}, {"id": "b", "weight": weight}])


def test_rows_that_all_weigh_nothing_are_refused() -> None:
    with pytest.raises(InputError, match="all 2 rows have weight 0"):
        row_weights([{"weight": 0}, {"weight": 0.0}])


@st.composite
def weighted(draw: st.DrawFn) -> Example:
    tokens = draw(st.lists(st.integers(0, len(TOKENIZER) - 1), min_size=2, max_size=14))
    mask = [*draw(st.lists(st.booleans(), min_size=len(tokens) - 1, max_size=len(tokens) - 1)), True]
    return Example(tokens, mask, weight=draw(st.floats(0.05, 1.0)))


def gradient_of(batch: list[Example], *, max_tokens: int) -> tuple[float, list[torch.Tensor]]:
    result = accumulate_gradients(TRAINER, batch, max_tokens=max_tokens)
    found = [parameter.grad.double().clone() for parameter in POLICY.module.parameters()]
    POLICY.module.zero_grad()
    return result.loss, found


@given(batch=st.lists(weighted(), min_size=1, max_size=6), budget=st.integers(1, 40))
@settings(max_examples=20, deadline=None)
def test_the_gradient_is_the_weighted_sum_of_single_rows(batch: list[Example], budget: int) -> None:
    """One row alone gives the mean over its targets, of any weight; a batch is their mean by weight times targets."""
    whole = sum(example.weight * example.num_targets for example in batch)
    shares = [example.weight * example.num_targets / whole for example in batch]
    alone = [gradient_of([Example(example.tokens, example.loss_mask)], max_tokens=10_000) for example in batch]
    for max_tokens in (budget, 10_000):  # accumulated over passes, and all rows in one pack
        loss, gradients = gradient_of(batch, max_tokens=max_tokens)
        assert loss == pytest.approx(sum(share * one for share, (one, _) in zip(shares, alone, strict=True)), rel=1e-5)
        for index, got in enumerate(gradients):
            expected = sum(share * one[index] for share, (_, one) in zip(shares, alone, strict=True))
            torch.testing.assert_close(got, expected, rtol=1e-3, atol=1e-6)
