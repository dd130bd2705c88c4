"""Scores between 0 and 1, by hand and as torch's sigmoid."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from components.contract.operators import OperatorSpec
from components.measure.slots import METRIC
from tests.measure.test_reward_models import context, sampled


def squashed(shift: float = 0.0, **table: float | None) -> float | None:
    operator = OperatorSpec.model_validate({"name": "squashed_reward", "shift": shift}).resolve(METRIC)
    (value,) = operator([sampled("r" * len(table))], context(**table))["squashed_reward"]
    return None if value is None else float(value)


def test_by_hand() -> None:
    assert squashed(a=0.0) == 0.5
    assert squashed(a=0.0, b=None, c=1.0986122886681098) == pytest.approx((0.5 + 0.75) / 2)
    assert squashed(shift=-2.0, a=2.0) == 0.5
    assert squashed(a=None) is None


@given(st.floats(-1e300, 1e300))
def test_agrees_with_torch(score: float) -> None:
    assert squashed(a=score) == pytest.approx(torch.tensor(score, dtype=torch.float64).sigmoid().item(), abs=1e-15)
