"""Rows that have nothing to teach or would be cut at a mark: refused with their place, or left out and counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from components.contract.component import Component
from components.contract.errors import InputError
from components.contract.names import load_target
from components.modeling.loading.load import load_policy
from components.modeling.supervised.usable import problem_of
from components.preference.component import COMPONENT as PREFERENCE
from components.reward_model.component import COMPONENT as REWARD_MODEL
from components.sft.component import COMPONENT as SFT
from tests.modeling.chat_models import LAYOUTS, save_model
from tests.support.stage_context import Finished, LocalContext, write_jsonl

ONE_STEP = {"steps": 1, "batch_size": 2, "checkpoint_every": 0}
GOOD = {"prompt": "1 + 1 =", "response": "2"}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    save_model(LAYOUTS["qwen2.5-instruct"], folder)
    return folder


def run(
    component: Component, folder: Path, model: Path, rows: list[dict[str, Any]], **params: Any
) -> tuple[Finished, list[str]]:
    given = {"model": model, "dataset": write_jsonl(folder / "data", rows)}
    context = LocalContext(component, folder / "run", params={**ONE_STEP, **params}, inputs=given)
    load_target(component.run, component.name)(context)
    return context.finish(), context.lines


def talk(*texts: str | None, **more: Any) -> dict[str, Any]:
    roles = ("user", "assistant") * len(texts)
    return {"messages": [{"role": role, "content": text} for role, text in zip(roles, texts, strict=False)], **more}


UNUSABLE: list[tuple[dict[str, Any], str]] = [
    ({**GOOD, "response": None}, "the response is null"),
    ({**GOOD, "response": ""}, "the response is blank"),
    ({**GOOD, "response": " \n\t"}, "the response is blank"),
    ({**GOOD, "response": 2}, "the response is of type int; expected text"),
    ({**GOOD, "prompt": ["1"]}, "the prompt is of type list"),
    ({**GOOD, "response": "2<|im_end|>\nand more"}, "contains '<|im_end|>'"),
    ({**GOOD, "response": "2<|im_end|>\n<|im_start|>user\n3"}, "contains '<|im_end|>'"),
    ({**GOOD, "response": "<|im_start|>2"}, "contains '<|im_start|>'"),
    ({**GOOD, "response": "<|im_end|>"}, "an end mark alone"),
    (talk("1 + 1 =", " "), "messages[1] (assistant) is blank"),
    (talk("1 + 1 =", "", "and?", "3"), "messages[1] (assistant) is blank"),
    (talk("1 + 1 =", "2<|im_end|>3"), "could pass for another turn"),
    (talk("1 + 1 =", response=None), "`turns` and `response`"),
    (talk("1 + 1 =", response=" "), "messages[1] (assistant) is blank"),
]


@pytest.mark.parametrize(("row", "says"), UNUSABLE)
def test_what_cannot_be_learnt_is_told_in_one_line(row: dict[str, Any], says: str, model: Path) -> None:
    policy = load_policy(model)
    assert policy.tokenizer is not None
    problem = problem_of(policy.tokenizer, policy.ends, row)
    assert problem is not None and says in problem and "\n" not in problem


def test_an_end_mark_behind_a_response_is_the_response_s_own(model: Path, tmp_path: Path) -> None:
    marked, _ = run(SFT, tmp_path / "a", model, [{**GOOD, "response": "2<|im_end|>"}])
    plain, _ = run(SFT, tmp_path / "b", model, [GOOD])
    assert marked.digests["model"] == plain.digests["model"]


def test_sft_refuses_such_rows_or_leaves_them_out_and_counts(model: Path, tmp_path: Path) -> None:
    rows = [GOOD, *(row for row, _ in UNUSABLE), GOOD]
    with pytest.raises(InputError, match=r"rows\.jsonl:2: the response is null.*bad_rows: drop.* 14 of 16"):
        run(SFT, tmp_path / "refuse", model, rows)
    found, lines = run(SFT, tmp_path / "drop", model, rows, bad_rows="drop")
    assert found.metrics["num_bad"] == len(UNUSABLE) and found.metrics["num_examples"] == 2
    assert "14 of 16 demonstrations are left out; the first, rows.jsonl:2: the response is null" in lines[0]
    plain, _ = run(SFT, tmp_path / "plain", model, [GOOD, GOOD])
    assert plain.digests["model"] == found.digests["model"] and "num_bad" not in plain.metrics
    with pytest.raises(InputError, match=r"none of 3 rows can be trained on; the first, rows\.jsonl:1: the response"):
        run(SFT, tmp_path / "none", model, [row for row, _ in UNUSABLE[:3]], bad_rows="drop")


PAIR = {"prompt": "1 + 1 =", "chosen": "2", "rejected": "3"}


def test_a_side_that_would_be_cut_is_a_bad_row(model: Path, tmp_path: Path) -> None:
    rows = [PAIR, {**PAIR, "chosen": "2<|im_end|>3"}, {**PAIR, "rejected": None}]
    with pytest.raises(InputError, match=r"rows\.jsonl:2: the response contains '<\|im_end\|>'"):
        run(PREFERENCE, tmp_path / "refuse", model, rows)
    found, _ = run(PREFERENCE, tmp_path / "drop", model, rows, bad_rows="drop")
    assert found.metrics["num_bad"] == 2 and found.metrics["num_examples"] == 1
    with pytest.raises(InputError, match=r"rows\.jsonl:2: a text contains '<\|im_end\|>'"):
        run(REWARD_MODEL, tmp_path / "reward", model, rows, holdout=0.0)


@pytest.mark.parametrize("component", [PREFERENCE, REWARD_MODEL])
def test_sides_of_the_same_tokens_are_left_out_and_counted(component: Component, tmp_path: Path) -> None:
    save_model(LAYOUTS["llama3.1"], tmp_path / "model")  # its template trims what is said
    params = {"holdout": 0.0} if component is REWARD_MODEL else {}
    rows = [PAIR, {**PAIR, "chosen": "3", "rejected": "3 "}]
    found, (line,) = run(component, tmp_path / "two", tmp_path / "model", rows, **params)
    assert found.metrics["num_equal"] == 1 and found.metrics["num_examples"] == 1
    assert "rows.jsonl:2" in line and "same tokens" in line
    with pytest.raises(InputError, match="same tokens"):
        run(component, tmp_path / "one", tmp_path / "model", rows[1:], **params)


def test_labels_of_one_class_are_refused(model: Path, tmp_path: Path) -> None:
    rows = [{"prompt": f"{at}?", "completion": str(at), "label": True} for at in range(3)]
    with pytest.raises(InputError, match=r"all 3 rows are desirable .*'kto' learns from the contrast"):
        run(PREFERENCE, tmp_path / "one", model, rows, preference_loss="kto")
    rows[0]["label"] = False
    found, _ = run(PREFERENCE, tmp_path / "two", model, rows, preference_loss="kto")
    assert found.metrics["num_examples"] == 3
