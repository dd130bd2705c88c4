"""EAD: the temperature by hand, what the rollout records, and the bounded importance weight."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from components.contract.operators import OperatorSpec
from components.modeling.models.policy import Policy
from components.modeling.packing.packed import Packed
from components.rl.batch.batch import Prompt
from components.rl.operators.rollouts.annealed_group import AnnealedGroupConfig, temperature_factor
from components.rl.step.scoring import frozen_logprobs
from tests.rl.build import batch_of, context, near, operator
from tests.rl.step.test_collector import collector, policy, pool  # noqa: F401  (fixtures)


def factor(position: int, step: int = 0, **config: float) -> float:
    return temperature_factor(position, step, AnnealedGroupConfig.model_validate(config))


def test_the_temperature_by_hand() -> None:
    assert [factor(position) for position in (0, 9)] == [1.0, 1.0]  # warm-up
    assert factor(10) == pytest.approx(2.2 - math.exp(10 / 500))
    assert factor(500 * math.log(1.2)) == pytest.approx(1.0)  # type: ignore[arg-type]
    assert factor(10, step=7) == pytest.approx(2.2 - math.exp(10 / 1200))
    assert factor(10, step=7, decay_cap=900) == pytest.approx(2.2 - math.exp(10 / 900))
    assert factor(400) == 0.1 and factor(10**9) == 0.1
    assert factor(0, warmup_tokens=0) == pytest.approx(1.2)


@given(
    position=st.integers(0, 3000),
    step=st.integers(0, 50),
    start=st.floats(1.0, 2.0),
    decay=st.floats(1.0, 1000.0),
    growth=st.floats(0.0, 50.0),
)
def test_it_falls_with_the_position_and_less_so_at_later_steps(
    position: int, step: int, start: float, decay: float, growth: float
) -> None:
    config = {"start": start, "decay_tokens": decay, "growth_tokens": growth, "warmup_tokens": 0}
    here = factor(position, step, **config)
    assert 0.1 <= here <= start
    assert factor(position + 1, step, **config) <= here <= factor(position, step + 1, **config)
    scale = min(decay + growth * step, 800_000)
    if position / scale < 20:
        assert here == pytest.approx(max(1 + start - math.exp(position / scale), 0.1))


def test_a_floor_above_the_start_is_refused() -> None:
    with pytest.raises(ValidationError, match=r"floor 1\.3 is above start 1\.2"):
        AnnealedGroupConfig(floor=1.3)


def test_what_drew_a_token_is_the_policy_at_its_own_temperature(policy: Policy, pool: list[Prompt]) -> None:  # noqa: F811
    settings = {"start": 1.8, "decay_tokens": 3, "growth_tokens": 1, "warmup_tokens": 1, "floor": 0.4}
    made = collector(policy, temperature=0.7)
    run = context(step=2, group_size=4, collector=made)
    batch = operator("rollout", "annealed_group", **settings)(pool, made, run)
    assert batch.group.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert torch.allclose(batch.old_logprobs, frozen_logprobs(policy, batch, temperature=0.7, max_tokens=99), atol=1e-5)
    packed = Packed.from_groups([prompt.tokens for prompt in batch.prompts], batch.responses())
    with torch.no_grad():
        logits = policy.target_logits(packed)
    factors = [1.0, *(max(2.8 - math.exp(place / 5), 0.4) for place in (1, 2, 3))]
    heat = 0.7 * torch.tensor(factors)[batch.positions].unsqueeze(1)
    expected = torch.log_softmax(logits / heat, -1).gather(1, batch.tokens.unsqueeze(1)).squeeze(1)
    assert torch.allclose(batch.behaviour_logprobs, expected, atol=1e-5)
    assert not torch.allclose(batch.behaviour_logprobs, batch.old_logprobs, atol=1e-3)


def test_the_same_draws_at_factor_one_are_the_plain_group(policy: Policy, pool: list[Prompt]) -> None:  # noqa: F811
    plain = operator("rollout", "group")(pool, (made := collector(policy)), context(group_size=4, collector=made))
    made = collector(policy)
    flat = operator("rollout", "annealed_group", warmup_tokens=99)(pool, made, context(group_size=4, collector=made))
    assert torch.equal(plain.tokens, flat.tokens)
    assert torch.allclose(plain.old_logprobs, flat.old_logprobs, atol=1e-5)
    weights = operator("advantage", "truncated_importance")(flat.with_advantages(torch.ones(12)), context())
    assert torch.allclose(weights, torch.ones(flat.num_tokens), atol=1e-5)


@given(seed=st.integers(0, 20), cap=st.sampled_from([0.5, 1.0, 2.0, 50.0]))
def test_the_weight_is_the_bounded_ratio(seed: int, cap: float) -> None:
    batch = batch_of([[1.0, 0.0, 0.5]], [[4, 1, 6]], seed=seed)
    generator = torch.Generator().manual_seed(seed)
    behaviour = batch.old_logprobs + torch.randn(batch.num_tokens, generator=generator) * 3
    batch = replace(batch, behaviour_logprobs=behaviour).with_advantages(torch.tensor([0.5, -1.0, 2.0]))
    expected = [
        advantage * min(math.exp(old - drew), cap)
        for advantage, old, drew in zip(
            batch.advantages.tolist(), batch.old_logprobs.tolist(), behaviour.tolist(), strict=True
        )
    ]
    assert near(operator("advantage", "truncated_importance", cap=cap)(batch, context()), expected, 1e-4)


def test_an_all_but_impossible_token_does_not_overflow() -> None:
    batch = replace(batch_of([[1.0]], [[1]]), behaviour_logprobs=torch.tensor([-1e4]))
    batch = batch.with_advantages(torch.tensor([-1.5]))
    bound = OperatorSpec(name="truncated_importance").resolve("advantage")
    assert near(bound(batch, context()), [-3.0])
