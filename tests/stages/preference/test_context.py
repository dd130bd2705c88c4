"""Context inside responses: what a tool said is read, and neither compared nor learnt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from transformers import AutoModelForCausalLM

from components.contract.errors import InputError
from components.contract.forking import Held
from components.modeling.loading.load import load_policy
from components.modeling.models.policy import Policy
from components.preference.comparisons import Comparison, encoded
from components.preference.component import COMPONENT
from components.preference.forking import misfits
from components.preference.params import PreferenceParams
from components.preference.reading import Candidates
from components.preference.scoring import frozen_logprobs, of_reference
from tests.stages.preference.data import pairs_folder
from tests.stages.supervised_data import base_model
from tests.support.stage_context import Interrupted, run_stage

TOOL = "<tool>12</tool>"
PARAMS: dict[str, Any] = {"steps": 6, "batch_size": 4, "checkpoint_every": 2, "context_tags": ["tool"]}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return base_model(tmp_path_factory.mktemp("context") / "model")


@pytest.fixture(scope="module")
def policy(model: Path) -> Policy:
    return load_policy(model)


def compare(policy: Policy, *responses: str, tags: tuple[str, ...] = ("tool",), **more: Any) -> Comparison:
    example = Candidates(task="What is the sum: 1 + 1 =", responses=responses, scores=(1.0, 0.0), **more)
    (found,) = encoded(policy, [example], tags)
    return found


def kept_text(policy: Policy, one: Comparison, at: int) -> str:
    tokens = [token for token, kept in zip(one.responses[at], one.masks[at], strict=True) if kept]
    assert policy.tokenizer is not None
    return "".join(policy.tokenizer.decode([token]) for token in tokens)


def test_blocks_of_the_tags_are_context_and_the_rest_is_compared(policy: Policy) -> None:
    found = compare(policy, f"<think>1{TOOL}2{TOOL}<answer>3", "<answer><tool>4")
    assert policy.tokenizer is not None
    end = policy.tokenizer.decode([found.responses[0][-1]])
    assert kept_text(policy, found, 0) == f"<think>12<answer>3{end}"
    assert kept_text(policy, found, 1) == f"<answer><tool>4{end}", "a tag that is not closed is text of the model"
    assert found.compared == tuple(map(sum, found.masks)) and found.num_targets == sum(found.compared)
    assert found.num_preferred == found.compared[0] < len(found.responses[0])
    assert found.num_tokens == len(found.prompt) + sum(map(len, found.responses)), "context is computed, too"
    assert compare(policy, "<answer>3", "<answer>4", tags=()).masks == ()


def test_log_probabilities_are_those_of_transformers_at_the_compared_tokens(policy: Policy, model: Path) -> None:
    theirs = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).eval()
    both = [compare(policy, f"<think>1{TOOL}<answer>3", f"{TOOL}<answer>4"), compare(policy, "<answer>5", "6", tags=())]
    for one in both:
        expected = []
        for at, response in enumerate(one.responses):
            tokens = torch.tensor([[*one.prompt, *response]])
            with torch.no_grad():
                logprobs = theirs(tokens).logits[0, len(one.prompt) - 1 : -1].log_softmax(-1)
            own = logprobs[torch.arange(len(response)), tokens[0, len(one.prompt) :]]
            mask = one.masks[at] if one.masks else (True,) * len(response)
            expected.append(float(own[torch.tensor(mask)].sum()))
        found = frozen_logprobs(policy, [of_reference(one)], max_tokens=10_000)
        assert found.tolist() == pytest.approx(expected, abs=1e-4)
    together = frozen_logprobs(policy, list(map(of_reference, both)), max_tokens=10_000)
    apart = [frozen_logprobs(policy, [of_reference(one)], max_tokens=10_000) for one in both]
    assert together.tolist() == pytest.approx(torch.cat(apart).tolist(), abs=1e-4), "one with masks beside one without"


def rows(tool: str = TOOL) -> list[dict[str, Any]]:
    sides = [(f"<think>{at}{tool}<answer>{at}", f"<think>{tool}<answer>9") for at in range(8)]
    return [
        {"prompt": f"{at} ?", "chosen": chosen, "rejected": rejected} for at, (chosen, rejected) in enumerate(sides)
    ]


def test_the_stage_counts_compared_tokens_and_resumes(model: Path, tmp_path: Path) -> None:
    inputs = {"model": model, "dataset": pairs_folder(tmp_path / "data", rows())}
    found = run_stage(COMPONENT, tmp_path / "straight", params=PARAMS, inputs=inputs)
    whole = run_stage(COMPONENT, tmp_path / "whole", params=PARAMS | {"context_tags": []}, inputs=inputs)
    assert found.digests["model"] != whole.digests["model"]
    assert found.history[0]["num_targets"] < whole.history[0]["num_targets"]
    assert found.metrics["chosen_longer"] == 1
    with pytest.raises(Interrupted):
        run_stage(COMPONENT, tmp_path / "killed", params=PARAMS, inputs=inputs, stop_after=2)
    again = run_stage(COMPONENT, tmp_path / "killed", params=PARAMS, inputs=inputs)
    assert again.digests == found.digests and again.history == found.history


def test_rows_without_context_are_trained_on_as_ever(model: Path, tmp_path: Path) -> None:
    inputs = {"model": model, "dataset": pairs_folder(tmp_path / "data", rows(""))}
    with_tags = run_stage(COMPONENT, tmp_path / "tags", params=PARAMS, inputs=inputs)
    without = run_stage(COMPONENT, tmp_path / "none", params=PARAMS | {"context_tags": []}, inputs=inputs)
    assert with_tags.history == without.history and with_tags.digests["model"] == without.digests["model"]


def test_what_a_tool_says_is_not_learnt(model: Path, tmp_path: Path) -> None:
    """Two data sets that differ in the context of what ends the response alone give one gradient of the SFT term."""
    trained = {}
    for name, text in {"one": f"<answer>1{TOOL}", "other": "<answer>1<tool>78</tool>"}.items():
        data = [{"prompt": "1 ?", "chosen": text, "rejected": "<answer>2", "prefix": "<think>", "ended": False}] * 4
        inputs = {"model": model, "dataset": pairs_folder(tmp_path / f"{name}-data", data)}
        params = PARAMS | {"preference_loss": {"name": "dpo", "sft": 1.0}}
        trained[name] = run_stage(COMPONENT, tmp_path / name, params=params, inputs=inputs).digests["model"]
    assert trained["one"] == trained["other"]


def test_refusals_are_one_line(policy: Policy) -> None:
    with pytest.raises(InputError, match=r"a response to 'What is the sum: 1 . 1 =' is context alone") as raised:
        compare(policy, TOOL, "2", prefix="<think>1", ended=False)
    assert "\n" not in str(raised.value)
    with pytest.raises(ValidationError, match="context_tags: preference_loss 'kto' estimates a divergence"):
        PreferenceParams.model_validate({"preference_loss": "kto", "context_tags": ["tool"]})
    with pytest.raises(ValidationError, match="context_tags"):
        PreferenceParams.model_validate({"context_tags": ["</tool>"]})
    before, now = PreferenceParams(), PreferenceParams(context_tags=("tool",))
    (reason,) = misfits(before, now, Held(step=1, files=frozenset({"tensors-reference.safetensors"})))
    assert reason.startswith("context_tags changes which rows are trained on")
