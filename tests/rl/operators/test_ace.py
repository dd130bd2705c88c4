"""ACE: by hand, against a loop over the formula, and that alpha 0 is the operator before it."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from components.contract.errors import InputError
from components.contract.operators import OperatorSpec
from components.rl.batch.batch import Batch
from components.rl.presets import bind, load_preset, override
from tests.rl.build import batch_of, context, near, operator, rows_of


def shifted(rewards: list[list[float]], lengths: list[list[int]], seed: int = 0) -> Batch:
    """Return a batch whose reference lies around the old log-probabilities, with GRPO's advantages."""
    batch = batch_of(rewards, lengths, seed=seed)
    noise = torch.randn(batch.num_tokens, generator=torch.Generator().manual_seed(seed)) * 2
    batch = replace(batch, reference_logprobs=batch.old_logprobs - noise)
    return batch.with_advantages(operator("advantage", "group_mean_std")(batch, context()))


def ace(batch: Batch, **config: object) -> torch.Tensor:
    return operator("advantage", "ace", **config)(batch, context())


def test_by_hand() -> None:
    batch = batch_of([[1.0, 0.0, 0.0]], [[1, 2, 1]]).with_advantages(torch.tensor([2.0, -1.0, -1.0]))
    batch = replace(batch, reference_logprobs=batch.old_logprobs - torch.tensor([9.0, 0.5, 1.5, -3.0]))
    # shifts 9 (right), 0.5 + 1.5 = 2, -3
    soft = [2.0, *[-1 - math.log1p(math.exp(2.0))] * 2, -1 - math.log1p(math.exp(-3.0))]
    assert near(ace(batch, limit=None), soft)
    assert near(ace(batch, growth="relu", alpha=0.5), [2.0, -2.0, -2.0, -1.0])
    assert near(ace(batch, growth="relu", reduce="mean"), [2.0, -2.0, -2.0, -1.0])
    assert near(ace(batch, growth="relu", limit=1.25), [2.0, -2.25, -2.25, -1.0])


@given(
    sizes=st.lists(st.integers(2, 5), min_size=1, max_size=3),
    seed=st.integers(0, 20),
    alpha=st.sampled_from([0.0, 0.3, 2.0]),
    growth=st.sampled_from(["softplus", "relu"]),
    reduce=st.sampled_from(["sum", "mean"]),
    limit=st.sampled_from([None, 0.7]),
)
def test_a_loop_over_the_formula(
    sizes: list[int], seed: int, alpha: float, growth: str, reduce: str, limit: float | None
) -> None:
    generator = torch.Generator().manual_seed(seed)
    rewards = [torch.randint(0, 2, (size,), generator=generator).float().tolist() for size in sizes]
    lengths = [torch.randint(1, 6, (size,), generator=generator).tolist() for size in sizes]
    batch = shifted(rewards, lengths, seed)
    expected = []
    columns = (batch.old_logprobs, batch.reference_logprobs, batch.advantages)
    for old, reference, advantages in zip(*(rows_of(batch, column) for column in columns), strict=True):
        shift = sum(old) - sum(reference)
        if reduce == "mean":
            shift /= len(old)
        grown = math.log1p(math.exp(shift)) if growth == "softplus" else max(shift, 0.0)
        grown = grown if limit is None else min(grown, limit)
        expected += [a * (1 + alpha * grown) if a < 0 else a for a in advantages]
    found = ace(batch, alpha=alpha, growth=growth, reduce=reduce, limit=limit)
    assert near(found, expected, 1e-4)
    if alpha == 0:
        assert torch.equal(found, batch.advantages)  # the baseline exactly
    assert bool(((found > 0) == (batch.advantages > 0)).all())


def test_the_penalty_grows_with_the_shift_and_nothing_happens_without_one() -> None:
    batch = batch_of([[1.0, 0.0, 0.0, 0.0]], [[1] * 4]).with_advantages(torch.tensor([1.5, -0.5, -0.5, -0.5]))
    batch = replace(batch, reference_logprobs=batch.old_logprobs - torch.tensor([0.0, -20.0, 0.0, 3.0]))
    found = ace(batch).tolist()
    assert found[1] == pytest.approx(-0.5, abs=1e-6) and found[1] > found[2] > found[3]


def test_a_reference_is_needed() -> None:
    slots = load_preset("ace").slots
    assert bind(slots).needs_reference
    with pytest.raises(InputError, match="ace compares with a reference policy"):
        bind(override(slots, {"reference": OperatorSpec(name="none")}))
