"""Without an objective of its own a batch trains to the bits that it had before there were objectives."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from components.modeling.packing.packed import Packed
from components.modeling.supervised.examples import Example
from components.modeling.supervised.loss import accumulate_gradients
from tests.modeling.supervised.test_row_weights import POLICY, TRAINER, weighted


@given(batch=st.lists(weighted(), min_size=1, max_size=6))
@settings(max_examples=15, deadline=None)
def test_loss_and_gradient_are_bit_for_bit_those_of_the_likelihood(batch: list[Example]) -> None:
    found = accumulate_gradients(TRAINER, batch, max_tokens=10_000)
    gradients = [parameter.grad.clone() for parameter in POLICY.module.parameters()]
    POLICY.module.zero_grad()
    order = sorted(range(len(batch)), key=lambda index: (-len(batch[index].tokens), index))
    rows = [batch[index] for index in order]
    packed = Packed.from_sequences([row.tokens for row in rows], masks=[row.loss_mask for row in rows])
    weights = torch.tensor([row.weight for row in rows])
    whole = sum(row.weight * row.num_targets for row in batch)
    logprobs = POLICY.target_logprobs(packed).logprobs
    (-(logprobs * weights[packed.sequence]).sum() / whole).backward()
    for got, parameter in zip(gradients, POLICY.module.parameters(), strict=True):
        assert torch.equal(got, parameter.grad)
    POLICY.module.zero_grad()
    assert not found.parts
