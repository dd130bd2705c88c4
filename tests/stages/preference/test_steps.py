"""Pairs of steps: what comes before them is context, and no end is learnt where more steps follow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from components.contract.errors import InputError
from components.modeling.loading.load import load_policy
from components.modeling.models.policy import Policy
from components.preference.comparisons import Comparison, encoded
from components.preference.component import COMPONENT
from components.preference.params import PreferenceParams
from components.preference.reading import read_candidates
from tests.stages.preference.data import pairs_folder
from tests.stages.supervised_data import base_model
from tests.support.stage_context import run_stage

STEP = {
    "prompt": "What is the sum: 1 + 2 =",
    "prefix": "<think>1+",
    "chosen": "2=3",
    "rejected": "2=4",
    "margin": 0.75,
    "ended": False,
}


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Policy:
    return load_policy(base_model(tmp_path_factory.mktemp("model") / "model"))


def comparison(policy: Policy, folder: Path, row: dict[str, Any]) -> Comparison:
    config = PreferenceParams.model_validate({"preference_loss": "step_apo"}).comparing
    (found,) = encoded(policy, read_candidates([pairs_folder(folder, [row])], "step_apo", config, "refuse").examples)
    return found


def test_the_context_is_the_prompt_and_the_steps_before(policy: Policy, tmp_path: Path) -> None:
    tokenizer = policy.tokenizer
    assert tokenizer is not None
    found = comparison(policy, tmp_path / "step", STEP)
    whole = comparison(
        policy,
        tmp_path / "whole",
        {**STEP, "prefix": None, "chosen": "<think>1+2=3", "rejected": "<think>1+2=4", "ended": True},
    )
    for step, response in zip(found.responses, whole.responses, strict=True):
        assert (*found.prompt, *step) == (*whole.prompt, *response)[:-1], "the same tokens, without the end"
    assert tokenizer.decode(list(found.prompt)).endswith("<think>1+")
    assert tokenizer.decode(list(found.responses[0])) == "2=3"
    assert found.margin == 0.75


@pytest.mark.parametrize("asked", ["What is the sum: 1 + 2 =", [{"role": "user", "content": "1 + 2 ="}]])
def test_white_space_alone_is_a_context(policy: Policy, tmp_path: Path, asked: Any) -> None:
    found = comparison(policy, tmp_path / "step", {**STEP, "prompt": asked, "prefix": " "})
    plain = {**STEP, "prompt": asked, "prefix": "", "chosen": " 2=3", "rejected": " 2=4"}
    whole = comparison(policy, tmp_path / "whole", plain)
    for step, response in zip(found.responses, whole.responses, strict=True):
        assert (*found.prompt, *step) == (*whole.prompt, *response)
    assert len(found.prompt) == len(whole.prompt) + 1


def test_a_last_step_ends_its_response(policy: Policy, tmp_path: Path) -> None:
    found = comparison(policy, tmp_path, {**STEP, "ended": True})
    assert all(response[-1] == policy.eos_ids[0] for response in found.responses)


def test_a_step_that_is_the_beginning_of_the_other_is_compared(policy: Policy, tmp_path: Path) -> None:
    found = comparison(policy, tmp_path, {**STEP, "rejected": "2"})
    assert [len(response) for response in found.responses] == [3, 1]


def test_steps_are_learned_and_their_values_count(policy: Policy, tmp_path: Path) -> None:
    model = base_model(tmp_path / "model")
    histories = {}
    for alpha in (0, 1):
        params = {
            "preference_loss": {"name": "step_apo", "alpha": alpha},
            "steps": 6,
            "batch_size": 2,
            "optimizer": {"peak_learning_rate": 0.02},
        }
        given = {"model": model, "dataset": pairs_folder(tmp_path / f"data-{alpha}", [STEP, {**STEP, "margin": 0.25}])}
        found = run_stage(COMPONENT, tmp_path / f"run-{alpha}", params=params, inputs=given)
        histories[alpha] = found.history
        assert found.metrics["num_targets"] == 6 * 2 * 2 * 3
    assert histories[1][0]["loss"] > histories[0][0]["loss"] == pytest.approx(0.6931472)
    assert histories[1][-1]["margin"] > 0


def test_steps_without_pairs_are_refused(tmp_path: Path) -> None:
    config = PreferenceParams.model_validate({"preference_loss": "kto"}).comparing
    with pytest.raises(InputError, match=r"rows\.jsonl:1: steps of a response are compared in pairs") as raised:
        read_candidates([pairs_folder(tmp_path, [STEP])], "kto", config, "refuse")
    assert "\n" not in str(raised.value)
