"""ProGRPO's reweighting: confidence by hand, prompts scored as responses are, and the all-wrong exception."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from components.modeling.packing.packed import Packed
from components.rl.batch.batch import Batch
from components.rl.operators.advantages.confidence_gap import confidence, prompt_logprobs
from components.rl.step.policies import Policies
from tests.rl.build import batch_of, context, near, operator, prompt, rows_of
from tests.rl.step.test_learner import tiny

PROMPTS = [prompt(0), prompt(1, tokens=(3, 1, 4, 1, 5)), prompt(2, tokens=(2,))]


class Bound:
    """Stands for the collector: the operator reads only its bound on a forward pass."""

    max_tokens = 6


def gap(batch: Batch, policies: Policies, **config: object) -> torch.Tensor:
    made: Any = Bound()
    return operator("advantage", "confidence_gap", **config)(batch, context(collector=made, policies=policies))


@pytest.fixture(scope="module")
def policies() -> Policies:
    return Policies(tiny(), Path("unused"), dtype="float32")


def test_confidence_by_hand() -> None:
    rows = [torch.tensor([-1.0, -4.0, -2.0, -3.0, 0.0]), torch.tensor([-0.5]), torch.empty(0)]
    assert near(confidence(rows, 0.2), [math.exp(-4), math.exp(-0.5), 1.0])
    assert near(confidence(rows, 0.4), [math.exp(-3.5), math.exp(-0.5), 1.0])
    assert near(confidence(rows, 0.41), [math.exp(-3), math.exp(-0.5), 1.0])  # rounded up: three of five
    assert near(confidence(rows, 1.0), [math.exp(-2), math.exp(-0.5), 1.0])


def test_a_step_without_a_verdict_has_no_confidences(policies: Policies) -> None:
    nothing = batch_of([[1.0, 0.0]]).select(torch.zeros(2, dtype=torch.bool))
    assert gap(nothing, policies, alpha=1.0).tolist() == []


def test_prompts_are_scored_by_the_policys_own_forward_pass(policies: Policies) -> None:
    policy = policies.trained
    found = prompt_logprobs(policy, PROMPTS, max_tokens=6)
    for made, row in zip(found, PROMPTS, strict=True):
        expected = torch.empty(0)
        if len(row.tokens) > 1:
            with torch.no_grad():
                expected = policy.target_logprobs(Packed.from_sequences([row.tokens])).logprobs
        assert len(made) == len(row.tokens) - 1 and torch.allclose(made, expected, atol=1e-6)


@settings(max_examples=25)  # each runs the network
@given(
    rewards=st.lists(st.lists(st.sampled_from([0.0, 1.0]), min_size=2, max_size=4), min_size=3, max_size=3),
    share=st.sampled_from([0.2, 0.5, 1.0]),
    apply_to=st.sampled_from(["all", "correct"]),
    seed=st.integers(0, 5),
)
def test_a_loop_over_the_formula(
    policies: Policies, rewards: list[list[float]], share: float, apply_to: str, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    lengths = [torch.randint(1, 8, (len(group),), generator=generator).tolist() for group in rewards]
    batch = replace(batch_of(rewards, lengths, seed=seed), prompts=tuple(PROMPTS))
    batch = batch.with_advantages(operator("advantage", "group_mean_std")(batch, context()))

    def lowest(values: list[float]) -> float:
        kept = sorted(values)[: math.ceil(round(share * len(values), 6))]
        return math.exp(sum(kept) / len(kept)) if kept else 1.0

    of_prompt = [lowest(row.tolist()) for row in prompt_logprobs(policies.trained, PROMPTS, max_tokens=99)]
    old, before = iter(rows_of(batch, batch.old_logprobs)), iter(rows_of(batch, batch.advantages))
    expected = []
    for index, group in enumerate(rewards):
        for reward in group:
            mine, advantages = lowest(next(old)), next(before)
            counts = any(group) and (apply_to == "all" or reward > 0)
            expected += [a + 0.3 * (of_prompt[index] - mine) * counts for a in advantages]
    assert near(gap(batch, policies, token_share=share, apply_to=apply_to), expected, 1e-5)
    assert torch.equal(gap(batch, policies, alpha=0.0), batch.advantages)


def test_a_group_without_a_right_response_is_left_alone_and_rare_right_ones_gain(policies: Policies) -> None:
    batch = replace(batch_of([[0.0, 0.0], [1.0, 1.0]], [[2, 2], [2, 2]]), prompts=tuple(PROMPTS[:2]))
    batch = replace(batch, old_logprobs=torch.tensor([-1.0, -1, -2, -2, -0.1, -0.1, -3, -3]))
    found = [row[0] for row in rows_of(batch, gap(batch, policies))]
    assert found[:2] == [0.0, 0.0]
    assert found[3] - found[2] == pytest.approx(0.3 * (math.exp(-0.1) - math.exp(-3)), abs=1e-6)
