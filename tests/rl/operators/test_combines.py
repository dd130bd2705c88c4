"""Combinations of reward parts: worked by hand, and where tokens receive them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from components.rl.batch.batch import Batch
from components.rl.batch.returns import received, reward_to_go
from components.rl.batch.reward_part import RewardPart, part_of
from components.rl.params import RLParams
from components.rl.step.reward_parts import with_rewards
from tests.rl.build import batch_of, context, near, operator

FOUR = batch_of([[0.0, 0.0], [0.0, 0.0]], [[1, 2], [3, 1]])


def parts(**values: tuple[float, list[float]]) -> list[RewardPart]:
    """Return parts by name: weight and values, per response or per token."""
    return [part_of(name, weight, torch.tensor(value), FOUR) for name, (weight, value) in values.items()]


def combine(name: str, given: list[RewardPart], batch: Batch = FOUR, step: int = 0, **config: Any) -> torch.Tensor:
    return operator("combine", name, **config)(given, batch, context(step))


RIGHT_AND_FORM = {"verifier": (1.0, [1.0, 0.0, 1.0, 0.0]), "pattern": (0.5, [1.0, 1.0, 0.0, 0.0])}


@pytest.mark.parametrize(
    ("name", "config", "expected"),
    [
        ("sum", {}, [1.5, 0.5, 1.0, 0.0]),
        ("gate", {"by": ["pattern"]}, [1.0, 0.0, 0.0, 0.0]),
        ("gate", {"by": ["pattern"], "otherwise": -1}, [1.0, 0.0, -1.0, -1.0]),
        ("gate", {"by": ["pattern"], "at_least": 0}, [1.0, 0.0, 1.0, 0.0]),
        ("veto", {"by": ["pattern"]}, [1.5, 0.5, 0.0, 0.0]),
        ("veto", {"by": ["pattern", "verifier"], "value": -2}, [1.5, -2.0, -2.0, -2.0]),
        ("minimum", {}, [0.5, 0.0, 0.0, 0.0]),
        ("product", {}, [0.5, 0.0, 0.0, 0.0]),
    ],
)
def test_by_hand(name: str, config: dict[str, Any], expected: list[float]) -> None:
    assert near(combine(name, parts(**RIGHT_AND_FORM), **config), expected)


def test_a_part_of_weight_0_is_watched_only() -> None:
    watched = parts(verifier=(1.0, [1.0, 1.0, 0.0, 0.0]), length=(0.0, [-9.0, -9.0, 5.0, 5.0]))
    for name in ("sum", "minimum", "product"):
        assert near(combine(name, watched), [1.0, 1.0, 0.0, 0.0])


def test_standardised_parts_count_by_their_weight_whatever_their_scale() -> None:
    # group 1: values 10 and 30, mean 20, deviation (ddof 1) sqrt(200) = 14.142 -> -+0.7071; group 2 is equal -> 0
    found = combine("standardised", parts(a=(2.0, [10.0, 30.0, 7.0, 7.0]), b=(1.0, [0.003, 0.001, 1.0, 2.0])))
    z = 1 / math.sqrt(2)
    assert near(found, [-2 * z + z, 2 * z - z, -z, z], tolerance=2e-3)
    population = combine("standardised", parts(a=(1.0, [10.0, 30.0, 7.0, 7.0])), ddof=0)
    assert near(population, [-1.0, 1.0, 0.0, 0.0], tolerance=1e-6)


def test_trust_falls_with_a_judge_that_prefers_wrong_responses_and_fades() -> None:
    # group 1: right .2, wrong .9: gamma exp(-.7); group 2 is all right: no bonus
    given = parts(verifier=(1.0, [1.0, 0.0, 1.0, 1.0]), judge=(0.3, [0.2, 0.9, 0.5, 0.6]))
    gamma = math.exp(-0.7)
    expected = [1 + 0.3 * gamma * 0.2, 0.3 * gamma * 0.9, 1.0, 1.0]
    assert near(combine("trusted", given, part="judge"), expected)
    faded = [1 + (bonus - 1) * math.exp(-2) for bonus in expected[:1]] + [expected[1] * math.exp(-2), 1.0, 1.0]
    assert near(combine("trusted", given, step=1000, part="judge"), faded)
    sound = parts(verifier=(1.0, [1.0, 0.0, 1.0, 1.0]), judge=(0.3, [0.9, 0.2, 0.5, 0.6]))
    assert near(combine("trusted", sound, part="judge"), [1.27, 0.06, 1.0, 1.0])


def test_rewards_of_tokens_stay_where_they_are_received() -> None:
    # lengths 1, 2, 3, 1
    step = [0.0, 0.5, 0.0, 0.25, 0.0, 0.25, 1.0]
    given = parts(verifier=(1.0, [1.0, 0.0, 1.0, 0.0]), steps=(2.0, step))
    found = combine("sum", given)
    assert near(found, [1.0, 1.0, 0.0, 0.5, 0.0, 1.5, 2.0])
    batch = with_rewards(FOUR, found)
    assert near(batch.rewards, [1.0, 1.0, 2.0, 2.0])
    assert near(received(batch), found.tolist())
    assert near(reward_to_go(batch), [1.0, 1.0, 0.0, 2.0, 1.5, 1.5, 2.0])
    gated = combine("gate", given, by=["verifier"], otherwise=-1.0)
    assert near(gated, [0.0, 0.0, -1.0, 0.5, 0.0, 0.5, -1.0])
    assert near(combine("minimum", given), [0.0, 0.0, 1.0, 0.0])


def test_without_token_rewards_the_reward_comes_at_the_end() -> None:
    batch = replace(FOUR, rewards=torch.tensor([1.0, 2.0, 3.0, 4.0]))
    assert received(batch).tolist() == [1.0, 0.0, 2.0, 0.0, 0.0, 3.0, 4.0]
    assert reward_to_go(batch).tolist() == [1.0, 2.0, 2.0, 3.0, 3.0, 3.0, 4.0]


def test_gae_with_lambda_1_is_the_reward_to_go_less_the_value() -> None:
    batch = with_rewards(FOUR, torch.tensor([0.0, 0.5, 0.0, 0.25, 0.0, 0.25, 1.0]))
    batch = replace(batch, values=torch.arange(7.0) / 10)
    found = operator("advantage", "gae", lam=1, whiten=False)(batch, context())
    assert near(found, (torch.tensor([0.0, 0.5, 0.0, 0.5, 0.25, 0.25, 1.0]) - batch.values).tolist())


@given(
    values=st.lists(st.lists(st.floats(-5, 5, width=32), min_size=4, max_size=4), min_size=1, max_size=3),
    weights=st.lists(st.floats(-2, 2, width=32), min_size=3, max_size=3),
)
def test_the_sum_is_a_sum(values: list[list[float]], weights: list[float]) -> None:
    given = parts(**{f"p{at}": (weights[at], value) for at, value in enumerate(values)})
    expected = [math.fsum(w * v[row] for w, v in zip(weights, values, strict=False)) for row in range(4)]
    assert near(combine("sum", given), expected, tolerance=1e-4)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"combine": {"name": "gate", "by": ["form"]}}, "names the part 'form'; the rewards are verifier"),
        ({"combine": {"name": "gate", "by": ["verifier"]}}, "gates every part"),
        ({"combine": {"name": "gate", "by": []}}, "by"),
        ({"combine": {"name": "trusted", "part": "verifier"}}, "trusts 'verifier' by itself"),
        ({"rewards": [{"name": "verifier", "weight": 0}]}, "every weight of verifier is 0"),
        ({"combine": "gates"}, "did you mean 'gate'?"),
        (
            {"rewards": ["pattern", "pattern"], "combine": {"name": "veto", "by": ["pattern 3"]}},
            "the rewards are pattern, pattern 2",
        ),
    ],
)
def test_what_cannot_be_combined_is_refused_in_a_line(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        RLParams.model_validate(given)
    assert said in str(caught.value) and "Traceback" not in str(caught.value)


def test_parts_of_one_operator_are_numbered() -> None:
    RLParams.model_validate(
        {"rewards": ["verifier", "pattern", "pattern"], "combine": {"name": "gate", "by": ["pattern 2"]}}
    )
