"""RepExp's bonus against loops of numpy over each response's own hidden states."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from components.measure.formulas.leverage import sparse_projection
from components.modeling.models.policy import Policy
from components.modeling.packing.packed import Packed
from components.rl.batch.batch import Batch
from components.rl.step.context import SlotContext
from tests.rl.build import batch_of, context, near, operator
from tests.rl.step.test_learner import tiny
from tests.rl.trajectories import conversations, single_rows

BATCH = batch_of([[1.0, 0.0, 0.0], [0.0, 0.0], [1.0, 1.0]], [[3, 5, 2], [4, 1], [6, 2]])


def now(policy: Policy, **changes: Any) -> SlotContext:
    other = tiny()
    with torch.no_grad():
        for _, weight in other.trainable():
            weight.mul_(1.5)
    policies = SimpleNamespace(start=policy, trained=other)
    return context(policies=policies, collector=SimpleNamespace(max_tokens=9), **changes)


def means(policy: Policy, batch: Batch) -> np.ndarray:
    """Return the mean hidden state of each response, from one pass for each."""
    found = []
    for row, tokens in enumerate(batch.tokens.split(batch.lengths.tolist())):
        packed = Packed.from_sequences([[*batch.contexts[row], *tokens.tolist()]], keep_last=True)
        found.append(policy.hidden(packed).detach()[-len(tokens) :].mean(0).double().numpy())
    return np.stack(found)


def by_hand(features: np.ndarray, groups: list[int], ridge: float) -> list[float]:
    """Centre each group, then h' (ridge I + sum of h h')^-1 h, one response at a time."""
    bonus = []
    for row, group in enumerate(groups):
        own = features[[index for index, other in enumerate(groups) if other == group]]
        centred = own - own.mean(0)
        sigma = ridge * np.eye(features.shape[1])
        for h in centred:
            sigma += np.outer(h, h)
        h = features[row] - own.mean(0)
        bonus.append(float(h @ np.linalg.inv(sigma) @ h))
    return bonus


def test_the_bonus_is_the_leverage_within_the_group_and_off_without_a_right_response() -> None:
    policy = tiny()
    expected = by_hand(means(policy, BATCH), BATCH.group.tolist(), 0.01)
    given = now(policy)
    found = operator("reward", "elliptical_bonus", dimensions=None)(BATCH, given)
    assert near(
        found, [0.0 if group == 1 else b for b, group in zip(expected, BATCH.group.tolist(), strict=True)], 1e-4
    )
    assert given.metrics["elliptical_bonus"] == pytest.approx(np.mean([*expected[:3], *expected[5:]]), abs=1e-4)
    everywhere = operator("reward", "elliptical_bonus", dimensions=None, groups="all")(BATCH, now(policy))
    assert near(everywhere, expected, 1e-4) and min(expected) > 0
    right = operator("reward", "elliptical_bonus", dimensions=None, responses="right")(BATCH, now(policy))
    assert near(right, [expected[0], 0, 0, 0, 0, *expected[5:]], 1e-4)


def test_the_projection_is_drawn_anew_at_each_step_and_again_when_a_step_is_repeated() -> None:
    policy, bound = tiny(), operator("reward", "elliptical_bonus", dimensions=4, groups="all")
    found = [bound(BATCH, now(policy, step=step)) for step in (3, 3, 4)]
    assert torch.equal(found[0], found[1]) and not torch.allclose(found[0], found[2], atol=1e-3)
    projection = sparse_projection(16, 4, torch.Generator().manual_seed(3)).numpy()
    assert near(found[0], by_hand(means(policy, BATCH) @ projection, BATCH.group.tolist(), 0.01), 1e-4)
    assert not torch.equal(bound(BATCH, now(policy, step=3, seed=1)), found[0])


def test_the_trained_policys_states_are_others() -> None:
    policy = tiny()
    start, trained = (
        operator("reward", "elliptical_bonus", policy=of)(BATCH, now(policy)) for of in ("start", "trained")
    )
    assert not torch.allclose(start, trained, atol=1e-3)


def test_trajectories_of_several_rows_count_once() -> None:
    whole = conversations([[1.0, 0.0]], [[[(0, 2), (3, 1)], [(0, 4), (1, 2)]]])
    bound = operator("reward", "elliptical_bonus", dimensions=None)
    first, second = (bound(batch, now(tiny())) for batch in (whole, single_rows(whole)))
    assert near(second, first[single_rows(whole).trace].tolist(), 1e-4)


def test_nothing_to_reward() -> None:
    none = BATCH.select(torch.zeros(7, dtype=torch.bool))
    assert operator("reward", "elliptical_bonus")(none, now(tiny())).shape == (0,)
    alone = batch_of([[1.0]])
    assert operator("reward", "elliptical_bonus")(alone, now(tiny())).tolist() == [0.0]
