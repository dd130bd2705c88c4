"""What a reward model reads of a row: what a pair's responses say before them is part of both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from components.contract.errors import InputError
from components.modeling.loading.load import load_policy
from components.modeling.scorers.reading import read_responses
from components.reward_model.config import ScorerLossConfig
from components.reward_model.params import RewardModelParams
from components.reward_model.rows import differing, read_units, weighing
from tests.modeling.chat_models import LAYOUTS, save_model
from tests.stages.reward_model.data import inputs
from tests.support.stage_context import Lines, write_jsonl

PAIR = {"prompt": "What is the sum: 1 + 2 =", "chosen": "<answer>3", "rejected": "<answer>4"}


STEPS = {"prompt": "What is the sum: 1 + 2 =", "completions": ["one more"], "labels": [True]}


def config_of(loss: str) -> ScorerLossConfig:
    params = RewardModelParams.model_validate({"scorer_loss": loss, "steps": 1})
    config = params.scorer_loss.resolve().config
    assert isinstance(config, ScorerLossConfig)
    return config


def bradley_terry() -> ScorerLossConfig:
    return config_of("bradley_terry")


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


@pytest.mark.parametrize(
    ("loss", "row"),
    [
        ("bradley_terry", {**PAIR, "chosen": "3<|eos|>x", "rejected": "3<|eos|>y"}),
        ("bradley_terry", {**PAIR, "rejected": "4<|eos|>"}),
        ("pointwise", {"prompt": "1 + 2 =", "completion": "3<|eos|>x", "label": True}),
        ("stepwise", {**STEPS, "completions": ["one <|eos|> more"]}),
    ],
)
def test_a_text_that_names_the_end_mark_is_refused_with_its_line(
    loss: str, row: dict[str, Any], tmp_path: Path
) -> None:
    good: Any = {"bradley_terry": PAIR, "stepwise": STEPS}.get(loss, {"prompt": "a", "completion": "b", "label": True})
    given = inputs(tmp_path, [good, row])
    with pytest.raises(InputError, match=r"rows\.jsonl:2: a text contains '<\|eos\|>', which ends a turn") as caught:
        read_units(load_policy(given["model"]), [given["dataset"]], config_of(loss))
    assert "\n" not in str(caught.value)


def test_a_pair_of_equal_tokens_is_left_out_and_told_with_its_line(tmp_path: Path) -> None:
    save_model(LAYOUTS["llama3.1"], tmp_path / "model")  # its template trims what is said
    data = write_jsonl(tmp_path / "data", [PAIR, {**PAIR, "chosen": "3", "rejected": "3 "}])
    units, lines = read_units(load_policy(tmp_path / "model"), [data], bradley_terry()), Lines()
    assert differing(units, lines) == (units[:1], 1)
    assert "rows.jsonl:2: chosen and rejected are the same tokens" in lines[0]
    with pytest.raises(InputError, match=r"rows\.jsonl:2: .* the same tokens.* no other is left of 1"):
        differing(units[1:], lines)


def test_a_response_is_scored_at_one_place_in_training_and_in_use(tmp_path: Path) -> None:
    policy = load_policy(inputs(tmp_path, [PAIR])["model"])
    pairs = [("1 + 2 =", "<answer>3"), ("1 + 2 =", "")]
    (plain, _), (every, empty) = (read_responses(policy, pairs, every=every) for every in (False, True))
    assert every.places[-1:] == plain.places == [len(plain.tokens) - 1] and len(every.places) > 2
    assert empty.places == [len(empty.tokens) - 1]
    tokenizer = policy.tokenizer
    assert tokenizer is not None
    tokenizer.pad_token = tokenizer.eos_token  # as GPT-2 and many others have it
    policy.pad_id = tokenizer.pad_token_id
    for alone, throughout in zip(*(read_responses(policy, pairs, every=every) for every in (False, True)), strict=True):
        assert throughout.places[-1:] == alone.places == [len(alone.tokens) - 2], "before the end, which pads"


def test_weights_are_shares_of_the_largest(tmp_path: Path) -> None:
    weights = [1e39, 5e38, 1e20, 0]
    given = inputs(tmp_path, [{**PAIR, "weight": weight} for weight in weights])
    units = read_units(load_policy(given["model"]), [given["dataset"]], bradley_terry())
    assert [(unit.number, unit.weight) for unit in weighing(units)] == [(0, 1.0), (1, 0.5)]
    assert weighing(units[3:]) == []
