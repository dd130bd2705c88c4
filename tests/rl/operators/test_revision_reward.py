"""Reward revision by hand: what the next answer gained by a critique."""

from __future__ import annotations

import math

import pytest
import torch
from pydantic import ValidationError

from components.contract.errors import InputError
from components.contract.operators import OperatorMisfit
from components.rl.params import RLParams
from tests.rl.build import batch_of, context, near, operator


class TestReward:
    def test_values_by_hand(self) -> None:
        batch = batch_of([[1.0, 1.0, 0.0, 0.0, 1.0]]).with_extras(
            before_s=torch.tensor([1.0, 1.0, 0.0, 0.0, 0.0]), after_s=torch.tensor([1.0, 0.0, 1.0, 0.0, 0.5])
        )
        for of, expected in {
            "after": [1, 0, 1, 0, 0.5],
            "change": [0, -1, 1, 0, 0.5],
            "kept_or_mended": [0.2, 0, 1, 0, 0.5],
        }.items():
            assert near(operator("reward", "revision", of=of)(batch, context()), expected)
        found = operator("reward", "revision", right=1.2, wrong=0.2)(batch, context())
        assert near(found, [1.2, 0.2, 1.2, 0.2, 0.7])  # r_refine + 0.2 of the paper

    def test_an_answer_that_could_not_be_verified_gives_none(self) -> None:
        nothing = torch.tensor([math.nan, 1.0])
        batch = batch_of([[1.0, 1.0]]).with_extras(before_s=torch.zeros(2), after_s=nothing)
        assert operator("reward", "revision")(batch, context()).isnan().tolist() == [True, False]

    def test_it_needs_the_rollout(self) -> None:
        with pytest.raises((ValidationError, OperatorMisfit), match="'roles'"):
            RLParams.model_validate({"method": "grpo", "rewards": ["revision"]})
        with pytest.raises(InputError, match="no rollout `roles`"):
            operator("reward", "revision")(batch_of([[1.0]]), context())
