"""Settings of groups, minibatches and learning rates that cannot be meant."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from components.contract.errors import InputError
from components.modeling.training.training_config import OptimizerConfig
from components.rl.guidelines import guidelines
from components.rl.params import RLParams


@pytest.mark.parametrize("advantage", ["group_mean", "group_mean_std", "leave_one_out"])
def test_groups_of_one_under_group_relative_advantages_are_refused(advantage: str) -> None:
    settings: dict[str, Any] = {"advantages": [{"name": advantage}]}
    RLParams(group_size=2, **settings)
    with pytest.raises((InputError, ValidationError), match="group_size: 1 leaves every response alone"):
        RLParams(group_size=1, **settings)


def test_groups_of_one_are_right_where_the_advantage_compares_nothing() -> None:
    RLParams.model_validate({"group_size": 1, "advantages": [{"name": "plain_reward"}]})


@pytest.mark.parametrize(("count", "said"), [(3, "does not divide 8 prompts"), (9, "write minibatches: 8 or less")])
def test_minibatches_that_do_not_divide_are_remarked(count: int, said: str) -> None:
    assert not [line for line in guidelines(RLParams(prompts_per_step=8, minibatches=4), {}) if "minibatches" in line]
    lines = guidelines(RLParams(prompts_per_step=8, minibatches=count), {})
    assert [line for line in lines if "minibatches" in line and said in line]


@pytest.mark.parametrize(("settings", "largest"), [({}, 0.1), ({"name": "muon", "muon_scale": "original"}, 1.0)])
def test_learning_rates_that_cannot_be_meant_are_refused(settings: dict[str, Any], largest: float) -> None:
    OptimizerConfig(peak_learning_rate=largest, **settings)
    with pytest.raises(ValidationError, match="more than 30 times what"):
        OptimizerConfig(peak_learning_rate=largest * 1.01, **settings)
