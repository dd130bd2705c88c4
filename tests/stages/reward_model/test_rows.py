"""What a reward model reads of a row: what a pair's responses say before them is part of both."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.contract.errors import InputError
from components.modeling.loading.load import load_policy
from components.reward_model.config import ScorerLossConfig
from components.reward_model.params import RewardModelParams
from components.reward_model.rows import read_units
from tests.stages.reward_model.data import inputs
from tests.support.stage_context import write_jsonl

PAIR = {"prompt": "What is the sum: 1 + 2 =", "chosen": "<answer>3", "rejected": "<answer>4"}


def bradley_terry() -> ScorerLossConfig:
    params = RewardModelParams.model_validate({"scorer_loss": "bradley_terry", "steps": 1})
    config = params.scorer_loss.resolve().config
    assert isinstance(config, ScorerLossConfig)
    return config


def test_a_prefix_is_read_before_both_sides(tmp_path: Path) -> None:
    given = inputs(tmp_path, [{**PAIR, "prefix": "one more, "}])
    whole = {**PAIR, "chosen": "one more, <answer>3", "rejected": "one more, <answer>4"}
    policy = load_policy(given["model"])
    (apart,) = read_units(policy, [given["dataset"]], bradley_terry())
    (together,) = read_units(policy, [write_jsonl(tmp_path / "whole", [whole])], bradley_terry())
    assert [reading.tokens for reading in apart.readings] == [reading.tokens for reading in together.readings]


def test_a_pair_that_does_not_end_is_refused(tmp_path: Path) -> None:
    given = inputs(tmp_path, [{**PAIR, "ended": False}])
    with pytest.raises(InputError, match="a pair with `ended: false` has no end to be scored at"):
        read_units(load_policy(given["model"]), [given["dataset"]], bradley_terry())
