"""Prompts with several answers, and prompts of too many tokens, in curate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from components.contract.errors import InputError
from components.contract.names import load_target
from components.curate.component import COMPONENT
from components.modeling.loading.load import load_policy
from components.modeling.text.prompting import encode_prompt
from components.tasks.rows import read_items
from components.tasks.verify import verify
from tests.stages.supervised_data import base_model
from tests.support.stage_context import Finished, LocalContext, write_jsonl

ASKED = [("one?", "1"), ("two?", "2"), ("one? ", "I"), ("one?", "1"), ("one?", "i"), ("two?", "2 ")]


def curate(
    folder: Path, rows: list[dict[str, Any]], inputs: dict[str, Path] | None = None, **params: Any
) -> tuple[Finished, list[str]]:
    source = {"name": "jsonl", "path": str(write_jsonl(folder, rows, name="in.jsonl") / "in.jsonl")}
    source |= params.pop("source", {})
    params = {"sources": [{"domain": "d", "source": source}], "shuffle": False, **params}
    context = LocalContext(COMPONENT, folder / "run", params=params, inputs=inputs or {})
    load_target(COMPONENT.run, COMPONENT.name)(context)
    return context.finish(), context.lines


@pytest.mark.parametrize("setting", ["first", "all_accepted", "drop"])
def test_a_prompt_with_several_answers(setting: str, tmp_path: Path) -> None:
    rows = [{"prompt": prompt, "answer": answer} for prompt, answer in ASKED]
    done, (line,) = curate(tmp_path, rows, contradictions=setting)
    items = {item.prompt: item for item in read_items(done.outputs["dataset"])}
    assert line.startswith("1 prompts have several answers") and "'one?': '1', 'I', 'i'" in line
    assert done.metrics["dropped_duplicate"] == 2, "equal answers contradict nothing"
    assert done.metrics["dropped_contradiction"] == (3 if setting == "drop" else 2)
    assert done.metrics["num_drawn"] == done.metrics["num_rows"] + done.metrics["num_dropped"] == 6
    assert set(items) == ({"two?"} if setting == "drop" else {"one?", "two?"})
    if setting != "drop":
        right = [verify(items["one?"], f"<answer>{answer}</answer>").right for answer in ("1", "I", "i", "2")]
        assert right == ([True, False, False, False] if setting == "first" else [True, True, True, False])
    card = json.loads((done.outputs["dataset"] / "card.json").read_text())
    assert card["drops"]["contradiction"] == done.metrics["dropped_contradiction"]


def test_a_verifier_of_one_answer_accepts_no_others(tmp_path: Path) -> None:
    rows = [{"prompt": "one?", "answer": "1"}, {"prompt": "one?", "answer": "2"}]
    with pytest.raises(InputError, match="verifier 'numeric' of 'one\\?' takes one answer; set verifier exact"):
        curate(tmp_path, rows, source={"verifier": "numeric"}, contradictions="all_accepted")


def test_long_prompts_are_dropped_cut_or_refused(tmp_path: Path) -> None:
    model = base_model(tmp_path / "model")
    tokenizer = load_policy(model).tokenizer
    assert tokenizer is not None
    text = "What is the sum: 1 + 2 + 3 + 4 ="
    rows = [{"prompt": "Spell", "answer": "a"}, {"prompt": text, "answer": "10"}]
    given, most = {"policy": model}, len(encode_prompt(tokenizer, text)) - 4
    drop, (line,) = curate(tmp_path / "drop", rows, given, max_prompt_tokens=most)
    assert drop.metrics["num_rows"] == 1 and drop.metrics["dropped_overlong"] == 1
    assert "1 left out; the first, in.jsonl:2, has" in line
    cut, _ = curate(tmp_path / "cut", rows, given, max_prompt_tokens=most, overlong="truncate_left")
    short = read_items(cut.outputs["dataset"])[1].prompt
    assert text.endswith(short) and most - 2 <= len(encode_prompt(tokenizer, short)) <= most
    with pytest.raises(InputError, match=r"in\.jsonl:2: a prompt of .* tokens.*max_prompt_tokens"):
        curate(tmp_path / "refuse", rows, given, max_prompt_tokens=most, overlong="refuse")
    with pytest.raises(InputError, match="max_prompt_tokens: connect the model"):
        curate(tmp_path / "alone", rows, max_prompt_tokens=most)
