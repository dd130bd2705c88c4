"""Combine constrained_rank: by hand, as an order, beside combine constrained, and what it refuses."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from components.contract.errors import InputError
from components.contract.operators import OperatorRefused
from components.rl.batch.reward_part import RewardPart, part_of
from components.rl.params import RLParams
from components.rl.step.rewarding import combined
from tests.rl.build import batch_of, context, operator

FOUR = batch_of([[0.0, 0.0], [0.0, 0.0]], [[1, 2], [3, 1]])
NAN = math.nan


def parts(**values: list[float]) -> list[RewardPart]:
    weights = {"judge": 0.0}
    return [part_of(name, weights.get(name, 1.0), torch.tensor(value), FOUR) for name, value in values.items()]


def combine(made: list[RewardPart], **by: float) -> tuple[list[float], dict[str, float]]:
    told = replace(context(0), metrics={})
    return combined(made, operator("combine", "constrained_rank", by=by), FOUR, told).tolist(), told.metrics


def test_by_hand() -> None:
    made = parts(scorer=[0.9, 0.75, 0.25, 0.5], judge=[1.0, 0.0, 0.0, NAN])
    found, metrics = combine(made, judge=1.0)
    assert found[:3] == pytest.approx([0.9, -0.25, -0.75]) and math.isnan(found[3])
    assert metrics == {"satisfied": pytest.approx(1 / 3)}


def test_a_violation_decides_though_another_judge_could_not_say_and_a_reward_must_be_known() -> None:
    made = parts(scorer=[0.5, 0.5, NAN, NAN], judge=[NAN, NAN, 0.0, 1.0], pattern=[0.0, 1.0, 1.0, 1.0])
    found, _ = combine(made, judge=1.0, pattern=1.0)
    assert found[0] == -0.5 and all(math.isnan(value) for value in found[1:])


@given(st.lists(st.tuples(st.floats(0, 1, width=32), st.booleans()), min_size=4, max_size=4))
def test_what_satisfies_lies_above_what_violates_and_both_keep_their_order(rows: list[tuple[float, bool]]) -> None:
    rewards, holds = [row[0] for row in rows], [float(row[1]) for row in rows]
    found, _ = combine(parts(scorer=rewards, judge=holds), judge=1.0)
    plain = operator("combine", "constrained", by={"judge": 1.0})(
        parts(scorer=rewards, judge=holds), FOUR, context()
    ).tolist()
    assert [max(value, 0.0) for value in found] == plain, "without what is below 0 it is combine constrained"
    for one in range(4):
        for other in range(4):
            if (holds[one], rewards[one]) > (holds[other], rewards[other]):
                assert found[one] >= found[other]


@pytest.mark.parametrize("reward", [[1.5, 0.0, 0.0, 0.0], [0.0, -0.1, NAN, 0.0]])
def test_rewards_beyond_0_and_1_are_one_line(reward: list[float]) -> None:
    with pytest.raises(
        InputError, match=r"rewards lie between .*, and must lie between 0 and 1; use calibrated_scorer"
    ):
        combine(parts(scorer=reward, judge=[1.0] * 4), judge=1.0)


def test_rewards_at_tokens_are_one_line() -> None:
    steps = part_of("steps", 1.0, torch.zeros(7), FOUR)
    with pytest.raises(InputError, match="orders whole responses"):
        combine([steps, *parts(judge=[1.0] * 4)], judge=1.0)


@pytest.mark.parametrize(
    ("by", "said"),
    [
        ({"judge": 1.0}, "names the part 'judge'; the rewards are verifier, pattern"),
        ({"verifier": 1.0, "pattern": 1.0}, "constrains every part, so that nothing is left to reward"),
    ],
)
def test_parts_that_do_not_fit_are_one_line(by: dict[str, Any], said: str) -> None:
    given_ = {"method": "rloo", "rewards": ["verifier", "pattern"], "combine": {"name": "constrained_rank", "by": by}}
    with pytest.raises((OperatorRefused, InputError, ValueError), match=said):
        RLParams.model_validate(given_)
