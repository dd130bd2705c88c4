"""RL-PLUS: both kinds of tokens by hand and by loop, the own responses as baseline, demonstrations in groups."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from components.modeling.packing.logprobs import TokenScores
from components.rl.batch.batch import FOREIGN, POLICY, Batch
from components.rl.component import COMPONENT
from components.rl.params import RLParams
from components.runtime.ledger.fingerprint import fingerprint
from tests.rl.build import batch_of, context, gradient, near, noisy_scores, operator, rows_of
from tests.rl.step.test_loop import folder, loop_of

__all__ = ["folder"]


def with_external(batch: Batch, rows: list[int]) -> Batch:
    foreign = torch.tensor([row in rows for row in range(batch.num_responses)])
    return replace(batch, author=torch.where(batch.to_tokens(foreign), FOREIGN, POLICY))


def test_advantages_are_measured_by_the_own_responses() -> None:
    batch = with_external(batch_of([[0.0, 0.0, 1.0], [1.0, 0.0, 1.0]]), [2, 5])
    assert near(operator("advantage", "on_policy_group")(batch, context()), [0, 0, 1, 0.5, -0.5, 0.5])
    # standard deviations of the own ones: 0, taken as 1, and sqrt(1 / 2)
    found = operator("advantage", "on_policy_group", divide_by_std=True, epsilon=0.0)(batch, context())
    assert near(found, [0, 0, 1, 0.5 * 2**0.5, -0.5 * 2**0.5, 0.5 * 2**0.5])


def test_a_group_of_demonstrations_alone_has_no_baseline() -> None:
    batch = with_external(batch_of([[1.0, 0.0]]), [0, 1])
    for divide in (False, True):
        assert near(operator("advantage", "on_policy_group", divide_by_std=divide)(batch, context()), [0, 0])


@pytest.mark.parametrize("name", ["group_mean", "group_mean_std"])
def test_without_demonstrations_it_is_the_groups_own_advantage(name: str) -> None:
    batch = batch_of([[1.0, 0.0, 0.0], [1.0, 1.0], [0.0, 1.0, 1.0, 1.0]])
    ours = operator("advantage", "on_policy_group", divide_by_std=name == "group_mean_std")(batch, context())
    assert torch.allclose(ours, operator("advantage", name)(batch, context()), atol=1e-5)


def test_an_external_token_by_hand() -> None:
    batch = with_external(batch_of([[1.0]], [[2]]), [0]).with_advantages(torch.tensor([2.0]))
    batch = replace(batch, old_logprobs=torch.tensor([0.5, 0.2]).log())
    scores = TokenScores(torch.tensor([0.36, 1.0]).log().requires_grad_(), None)
    result = operator("objective", "rl_plus", gamma=0.5)(scores, batch, context())
    # 2 * 0.36 / (0.5 + 0.75) = 0.576, times 2 * sqrt(0.64); the second token is certain: no exploration is left
    assert near(result.loss, [-0.576 * 2 * 0.8, 0.0])
    assert near(result.metrics["external_ratio"], [0.576, 2 / 0.8])
    # d r_ext / d logp = r_ext; the exploration factor has no gradient
    assert near(gradient(scores, result.loss), [-0.576 * 2 * 0.8, 0.0])
    held = operator("objective", "rl_plus", external_max=0.5)(scores, batch, context())
    assert near(held.loss, [-0.5 * 2 * 0.8, 0.0])


@given(
    lengths=st.lists(st.lists(st.integers(1, 5), min_size=2, max_size=4), min_size=1, max_size=3),
    clip=st.sampled_from([None, 0.2]),
    gamma=st.sampled_from([0.0, 0.5, 2.0]),
)
def test_the_loss_equals_a_loop_over_the_formula(lengths: list[list[int]], clip: float | None, gamma: float) -> None:
    batch = batch_of([[0.0] * len(group) for group in lengths], lengths)
    batch = with_external(batch, list(range(0, batch.num_responses, 2)))
    batch = batch.with_advantages(torch.linspace(-1, 1, batch.num_responses))
    scores = noisy_scores(batch)
    config = {"clip_low": clip, "clip_high": clip, "gamma": gamma}
    found = rows_of(batch, operator("objective", "rl_plus", **config)(scores, batch, context()).loss.detach())
    columns = (scores.logprobs.detach(), batch.old_logprobs, batch.advantages)
    for row, (new, old, advantage) in enumerate(zip(*(rows_of(batch, c) for c in columns), strict=True)):
        for t, a in enumerate(advantage):
            p, q = math.exp(new[t]), math.exp(old[t])
            if batch.external[row]:
                expected = -2 * p / (q + 0.5 * (q + 1)) * a * max(0.0, 1 - p) ** gamma
            else:
                ratio = p / q
                clipped = ratio if clip is None else max(1 - clip, min(1 + clip, ratio))
                expected = -min(ratio * a, clipped * a)
            assert found[row][t] == pytest.approx(expected, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("clip", [0.2, 0.3])
def test_without_demonstrations_it_is_the_clipped_surrogate(clip: float) -> None:
    batch = batch_of([[1.0, 0.0, 1.0]], [[3, 2, 4]]).with_advantages(torch.tensor([1.0, -1.0, 0.5]))
    scores = noisy_scores(batch)
    ours = operator("objective", "rl_plus", clip_low=clip, clip_high=clip)(scores, batch, context()).loss
    theirs = operator("objective", "ppo_clip", clip_low=clip, clip_high=clip)(scores, batch, context()).loss
    assert torch.equal(ours, theirs)


def test_every_group_gets_a_verified_demonstration(folder: Path) -> None:
    loop = loop_of(folder, method="rl-plus", max_new_tokens=4)
    collector = loop.collector()
    batch = loop._gather(collector)
    assert batch.external.tolist() == [False, False, False, False, True] * 4
    assert batch.texts[4::5] == ("<answer>x",) * 4
    assert (batch.rewards[batch.external] == 1).all() and (batch.outcomes[batch.external] == 1).all()
    assert batch.finished[batch.external].all()
    again = loop_of(folder, method="rl-plus", max_new_tokens=4)
    assert again._gather(again.collector()).texts == batch.texts


def test_demonstrations_are_learned_although_the_policy_never_finds_them(folder: Path) -> None:
    given = {"method": "rl-plus", "max_new_tokens": 4, "optimizer": {"peak_learning_rate": 1e-2}, "steps": 8}
    loop = loop_of(folder, **given)
    probabilities = []
    for _ in range(8):
        batch = loop._gather(loop.collector())
        probabilities.append(float(batch.old_logprobs[batch.to_tokens(batch.external)].exp().mean()))
        loop.step()
    assert probabilities[-1] > 2 * probabilities[0]


def test_the_demonstrator_is_part_of_the_fingerprint_and_must_exist() -> None:
    params = RLParams(method="rl-plus")
    assert "components/tasks/demonstrators/gold.py" in fingerprint(COMPONENT, params, {}, 0).parts["code"]
    with pytest.raises(ValidationError, match="unknown demonstrator operator 'golden'"):
        RLParams.model_validate({"guidance": {"name": "demonstrations", "demonstrator": "golden"}})
