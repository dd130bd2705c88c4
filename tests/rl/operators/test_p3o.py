"""P3O: both variants by hand, against a loop over pairs, and the constant of a prompt that changes nothing."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from components.contract.errors import InputError
from components.modeling.packing.logprobs import TokenScores
from components.rl.batch.batch import Batch
from components.rl.operators.objectives.p3o import MOST
from components.rl.step.learner import token_weights
from tests.rl.build import batch_of, context, gradient, near, noisy_scores, operator, rows_of
from tests.rl.tiny_loop import loop_of, write_model

VARIANTS = ("separate", "joint")


def rewarded(rewards: list[list[float]], lengths: list[list[int]] | None = None, seed: int = 0) -> Batch:
    batch = batch_of(rewards, lengths, seed=seed)
    return batch.with_advantages(operator("advantage", "plain_reward")(batch, context()))


def loss_of(batch: Batch, scores: TokenScores, **config: Any) -> torch.Tensor:
    found = operator("objective", "p3o", **config)(scores, batch, context())
    return (found.loss * token_weights(batch, "responses", 1)).sum()


def by_loop(batch: Batch, scores: TokenScores, variant: str, clip: float) -> float:
    """The mean over groups of the mean over unordered pairs, from lists of numbers."""
    moved = [
        sum(new) - sum(old)
        for new, old in zip(rows_of(batch, scores.logprobs.detach()), rows_of(batch, batch.old_logprobs), strict=True)
    ]
    groups: dict[int, list[int]] = {}
    for row, group in enumerate(batch.group.tolist()):
        groups.setdefault(group, []).append(row)
    total, rows = 0.0, 0
    for members in groups.values():
        pairs = list(combinations(members, 2))
        losses = []
        for i, j in pairs:
            d = float(batch.rewards[i] - batch.rewards[j]) / 2
            if variant == "joint":
                u = moved[i] - moved[j]
                losses.append(-min(u * d, min(max(u, -clip), clip) * d))
            else:
                ratios = [(math.exp(moved[i]), d), (math.exp(moved[j]), -d)]
                losses.append(-sum(min(r * a, min(max(r, 1 - clip), 1 + clip) * a) for r, a in ratios))
        total += len(members) * (sum(losses) / len(losses) if losses else 0.0)
        rows += len(members)
    return total / rows


def test_a_pair_by_hand() -> None:
    batch = rewarded([[1.0, 0.0]], [[2, 1]])
    scores = TokenScores(batch.old_logprobs + torch.tensor([0.05, 0.05, -0.05]), None)
    # d = 1/2; u = .15 is inside the clip: -.15 / 2. Ratios e^.1 and e^-.05, both inside: -(e^.1 - e^-.05) / 2
    assert float(loss_of(batch, scores)) == pytest.approx(-0.075, abs=1e-6)
    expected = -(math.exp(0.1) - math.exp(-0.05)) / 2
    assert float(loss_of(batch, scores, variant="separate")) == pytest.approx(expected, abs=1e-6)
    # u beyond .1: clipped at -.1 / 2; the ratio e^.1 is beyond 1.05: -(1.05 - e^-.05) / 2
    assert float(loss_of(batch, scores, clip=0.1)) == pytest.approx(-0.05, abs=1e-6)
    expected = -(1.05 - math.exp(-0.05)) / 2
    assert float(loss_of(batch, scores, variant="separate", clip=0.05)) == pytest.approx(expected, abs=1e-6)


@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    variant=st.sampled_from(VARIANTS),
    clip=st.sampled_from([0.05, 0.2, 0.9]),
    seed=st.integers(0, 20),
)
def test_any_batch_is_the_mean_over_pairs_of_a_loop(sizes: list[int], variant: str, clip: float, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    rewards = [torch.randn(size, generator=generator).tolist() for size in sizes]
    lengths = [torch.randint(1, 5, (size,), generator=generator).tolist() for size in sizes]
    batch = rewarded(rewards, lengths, seed)
    scores = noisy_scores(batch, seed=seed, spread=0.2)
    found = loss_of(batch, scores, variant=variant, clip=clip)
    assert float(found.detach()) == pytest.approx(by_loop(batch, scores, variant, clip), abs=1e-5)


@pytest.mark.parametrize("variant", VARIANTS)
def test_before_any_update_the_gradient_is_that_of_leave_one_out(variant: str) -> None:
    batch = rewarded([[1.0, 0.25, -2.0], [0.5, 0.0]], [[2, 1, 3], [1, 2]])
    scores = TokenScores(batch.old_logprobs.clone().requires_grad_(), None)
    weights = token_weights(batch, "responses", 1)
    ours = gradient(scores, operator("objective", "p3o", variant=variant)(scores, batch, context()).loss * weights)
    rloo = batch.with_advantages(operator("advantage", "leave_one_out")(batch, context()))
    plain = operator("objective", "policy_gradient")(scores, rloo, context()).loss
    assert near(ours, gradient(scores, plain / batch.num_responses).tolist(), 1e-6)


@given(
    offsets=st.lists(st.floats(-100, 100, width=32), min_size=2, max_size=2),
    variant=st.sampled_from(VARIANTS),
    seed=st.integers(0, 10),
)
def test_a_constant_of_each_prompt_leaves_the_gradient_unchanged(offsets: list[float], variant: str, seed: int) -> None:
    batch = rewarded([[1.0, 0.25, -2.0], [0.5, 0.0]], [[2, 1, 3], [1, 2]], seed)
    scores = noisy_scores(batch, seed=seed)
    shifted = replace(batch, rewards=batch.rewards + torch.tensor(offsets)[batch.group])
    shifted = shifted.with_advantages(shifted.rewards)
    weights = token_weights(batch, "responses", 1)
    objective = operator("objective", "p3o", variant=variant)
    first, second = (gradient(scores, objective(scores, one, context()).loss * weights) for one in (batch, shifted))
    assert near(first, second.tolist(), 1e-5)


def test_a_constant_moves_a_surrogate_of_the_rewards_themselves() -> None:
    batch = rewarded([[1.0, 0.25, -2.0], [0.5, 0.0]], [[2, 1, 3], [1, 2]])
    scores = noisy_scores(batch, spread=0.0)
    shifted = batch.with_advantages(batch.rewards + torch.tensor([0.0, 2.0])[batch.group])
    clip = operator("objective", "ppo_clip")
    first, second = (gradient(scores, clip(scores, one, context()).loss) for one in (batch, shifted))
    assert not near(first, second.tolist(), 1e-2)


def test_the_clip_stops_what_has_moved_far_enough_and_not_what_moved_back() -> None:
    batch = rewarded([[1.0, 0.0]], [[1, 1]])
    further, back = (torch.tensor([sign * 0.5, -sign * 0.5]) for sign in (1, -1))
    for variant in VARIANTS:
        for shift, silenced in ((further, 1.0), (back, 0.0)):
            scores = TokenScores((batch.old_logprobs + shift).requires_grad_(), None)
            found = operator("objective", "p3o", variant=variant)(scores, batch, context())
            assert found.metrics["clip_fraction"].tolist() == [silenced, silenced]
            assert bool((gradient(scores, found.loss) == 0).all()) is bool(silenced)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("size", [50.0, 1e4])
def test_ratios_that_would_overflow_leave_finite_numbers(variant: str, size: float) -> None:
    assert size > MOST
    batch = rewarded([[1.0, 0.0], [0.0, 1.0]], [[1, 1], [1, 1]])
    scores = TokenScores((batch.old_logprobs + torch.tensor([size, -size, size, -size])).requires_grad_(), None)
    found = operator("objective", "p3o", variant=variant)(scores, batch, context())
    assert bool(found.loss.isfinite().all()) and bool(gradient(scores, found.loss).isfinite().all())
    back = TokenScores((batch.old_logprobs + torch.tensor([-size, size, size, -size])).requires_grad_(), None)
    pulled = gradient(back, operator("objective", "p3o", variant=variant)(back, batch, context()).loss)
    assert bool(pulled[1] > 0), "a worse response that moved up is pulled back, however far it moved"


def test_a_response_alone_has_no_gradient() -> None:
    batch = rewarded([[1.0]], [[3]])
    scores = noisy_scores(batch)
    found = operator("objective", "p3o")(scores, batch, context())
    assert found.loss.tolist() == [0.0] * 3 and all(value.sum() == 0 for value in found.metrics.values())


def test_settings_out_of_range_are_refused() -> None:
    for bad in ({"clip": 0.0}, {"clip": 1.0}, {"variant": "v3"}):
        with pytest.raises((InputError, ValidationError)):
            operator("objective", "p3o", **bad)


def test_the_price_of_divergence_by_hand() -> None:
    batch = batch_of([[1.0, 0.5]], [[2, 1]])
    batch = replace(batch, reference_logprobs=batch.old_logprobs - torch.tensor([0.3, 0.1, -0.2]))
    found = operator("advantage", "reward_less_divergence", coefficient=0.5)(batch, context())
    assert near(found, [1.0 - 0.5 * 0.4, 0.5 + 0.5 * 0.2])
    tokens = operator("advantage", "reward_minus_kl", coefficient=0.5)(batch, context())
    assert near(found, [float(tokens[0]), float(tokens[2])]), "what a response's first token is charged with"


def test_offsets_are_a_prompts_own_and_the_same_whenever_it_is_drawn() -> None:
    batch = batch_of([[0.0, 1.0], [0.0], [0.0]])
    offset = operator("reward", "prompt_offset", spread=2.0)
    found = offset(batch, context(0))
    assert found[0] == found[1] and len(set(found.tolist())) == 3
    again = offset(batch.select(torch.tensor([2])), context(7))
    assert again.tolist() == [found[2].item()]
    assert not near(offset(batch, context(0, seed=1)), found.tolist())
    assert near(operator("reward", "prompt_offset", spread=0.0)(batch, context(0)), [0.0] * 4)
    many = torch.cat([offset(batch, context(0, seed=seed))[1:] for seed in range(700)])
    assert float(many.mean()) == pytest.approx(0.0, abs=0.2) and float(many.std()) == pytest.approx(2.0, abs=0.15)


@pytest.mark.parametrize("variant", VARIANTS)
def test_steps_with_and_without_offsets_end_at_the_same_weights(variant: str, tmp_path: Any) -> None:
    write_model(tmp_path / "policy")
    states = []
    for extra in ([], [{"name": "prompt_offset", "spread": 1.0}]):
        loop = loop_of(
            tmp_path / "policy",
            method="rloo",
            rewards=["verifier", *extra],
            advantages=[{"name": "reward_less_divergence", "coefficient": 0.1}],
            objective={"name": "p3o", "variant": variant},
            regularizers=[],
            minibatches=2,
            optimizer={"peak_learning_rate": 1e-3, "eps": 1e-4},
        )
        for _ in range(2):
            metrics = loop.step()
        assert metrics["grad_norm"] > 0
        states.append(loop.policies.trained.state())
    for name, value in states[0].items():
        torch.testing.assert_close(value, states[1][name], atol=1e-5, rtol=0)
