"""Combine constrained: by hand, against a rule for each response alone, and what is not judged is no violation."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from components.contract.operators import OperatorRefused
from components.rl.batch.batch import Batch
from components.rl.batch.reward_part import RewardPart, part_of
from components.rl.params import RLParams
from components.rl.step.rewarding import combined
from tests.rl.build import batch_of, context, near, operator

FOUR = batch_of([[0.0, 0.0], [0.0, 0.0]], [[1, 2], [3, 1]])
NAN = math.nan


def parts(**values: list[float]) -> list[RewardPart]:
    return [part_of(name, 2.0, torch.tensor(value), FOUR) for name, value in values.items()]


def combine(given_parts: list[RewardPart], batch: Batch = FOUR, **config: Any) -> tuple[list[float], dict[str, float]]:
    given_context = replace(context(0), metrics={})
    return operator("combine", "constrained", **config)(
        given_parts, batch, given_context
    ).tolist(), given_context.metrics


def same(found: list[float], expected: list[float]) -> bool:
    return all(
        near(torch.tensor([a]), [b]) or (math.isnan(a) and math.isnan(b)) for a, b in zip(found, expected, strict=True)
    )


def test_by_hand() -> None:
    made = parts(verifier=[1.0, 1.0, 0.5, 1.0], judge=[0.9, 0.2, 0.5, NAN], pattern=[1.0, 1.0, 1.0, 1.0])
    found, metrics = combine(made, by={"judge": 0.5, "pattern": 1.0}, otherwise=-1.0)
    assert same(found, [2.0, -1.0, 1.0, NAN])
    assert metrics == {
        "satisfied_judge": pytest.approx(2 / 3),
        "satisfied_pattern": 1.0,
        "satisfied": pytest.approx(2 / 3),
    }


def test_a_violated_constraint_decides_though_another_is_unknown() -> None:
    made = parts(verifier=[1.0] * 4, judge=[NAN, NAN, 1.0, 0.0], pattern=[0.0, 1.0, 0.0, NAN])
    assert same(combine(made, by={"judge": 0.5, "pattern": 1.0})[0], [0.0, NAN, 0.0, 0.0])


def test_rewards_of_tokens_stay_where_they_are_received() -> None:
    steps = part_of("steps", 1.0, torch.arange(7.0), FOUR)
    made = [steps, *parts(judge=[1.0, 0.0, NAN, 1.0])]
    found, _ = combine(made, by={"judge": 0.5}, otherwise=-1.0)
    assert same(found, [0.0, 0.0, -1.0, NAN, NAN, NAN, 6.0])


class TestOfAStep:
    """As a step calls it: what could not be judged reaches the constraints."""

    def reward(self, made: list[RewardPart], batch: Batch = FOUR) -> tuple[list[float], dict[str, float]]:
        told = replace(context(0), metrics={})
        bound = operator("combine", "constrained", by={"judge": 0.5, "pattern": 1.0}, otherwise=-1.0)
        return combined(made, bound, batch, told).tolist(), told.metrics

    def test_a_violation_decides_whatever_else_could_not_be_judged(self) -> None:
        made = parts(verifier=[1.0, 1.0, NAN, NAN], judge=[NAN, NAN, 1.0, 0.0], pattern=[0.0, 1.0, 1.0, 1.0])
        found, metrics = self.reward(made)
        assert same(found, [-1.0, NAN, NAN, -1.0])
        assert metrics == {"satisfied_judge": 0.5, "satisfied_pattern": 0.75, "satisfied": 0.5}

    def test_rewards_of_tokens_are_unknown_of_whole_responses(self) -> None:
        steps = part_of("steps", 1.0, torch.tensor([NAN, 1.0, 2.0, NAN, 4.0, 5.0, 6.0]), FOUR)
        made = [steps, *parts(judge=[1.0, NAN, 0.0, 1.0], pattern=[1.0] * 4)]
        assert same(self.reward(made)[0], [NAN, NAN, NAN, 0.0, 0.0, -1.0, 6.0])

    def test_other_combinations_do_not_see_them(self) -> None:
        made = parts(verifier=[1.0, NAN, 0.0, 1.0], pattern=[1.0, 0.0, NAN, 1.0])
        found = combined(made, operator("combine", "gate", by=["pattern"]), FOUR, context(0))
        assert same(found.tolist(), [2.0, NAN, NAN, 2.0])


VALUE = st.sampled_from([0.0, 0.4, 0.5, 1.0, NAN])


@given(st.lists(st.tuples(VALUE, VALUE, st.sampled_from([0.0, 1.0])), min_size=4, max_size=4))
def test_each_response_by_itself(rows: list[tuple[float, float, float]]) -> None:
    first, second, reward = map(list, zip(*rows, strict=True))
    found, _ = combine(parts(verifier=reward, a=first, b=second), by={"a": 0.5, "b": 0.4}, otherwise=-3.0)
    expected = []
    for one, other, worth in rows:
        if one < 0.5 or other < 0.4:
            expected.append(-3.0)
        elif math.isnan(one) or math.isnan(other):
            expected.append(NAN)
        else:
            expected.append(2 * worth)
    assert same(found, expected)


@pytest.mark.parametrize(
    ("by", "says"),
    [
        ({}, "at least 1"),
        ({"judge": math.inf}, "finite number"),
        ({"jugde": 0.5}, r"names the part 'jugde'; the rewards are verifier, judge"),
        ({"judge": 0.5, "verifier": 1.0}, "nothing is left to reward"),
    ],
)
def test_bad_settings_are_refused(by: dict[str, float], says: str) -> None:
    with pytest.raises((ValueError, OperatorRefused), match=says):
        RLParams.model_validate(
            {"rewards": ["verifier", "judge"], "combine": {"name": "constrained", "by": by}, "steps": 1}
        )
