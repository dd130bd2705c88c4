"""`try` on rewards as TRL's users write them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from components.contract.errors import OperatorFailed
from components.contract.messages import Message
from pipelines.trial import trial
from pipelines.trial.rows import GIVEN, Case, Read, read_cases
from pipelines.trial.trial import Trial, try_operator


def tried(folder: Path, text: str) -> Trial:
    (folder / "rows.jsonl").write_text(json.dumps({"prompt": "1+1?", "answer": "2", "said": "two"}) + "\n")
    (folder / "mine.py").write_text(text)
    return try_operator(f"{folder}/mine.py:f", {}, Read(f"{folder}/rows.jsonl", 4, completions="said"))


def test_an_async_reward_with_token_ids_in_second_place(tmp_path: Path) -> None:
    text = "async def f(prompts, completions, completion_ids):\n    return [len(ids) for ids in completion_ids]\n"
    made = tried(tmp_path, text)
    assert [row.value for row in made.judged] == [3.0]
    assert made.takes_ids


def test_sys_exit_in_a_reward_is_one_line_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(OperatorFailed, match=r"called sys\.exit\(3\), at .*mine\.py:3"):
        tried(tmp_path, "import sys\ndef f(completions, **columns):\n    sys.exit(3)\n")


def test_completions_of_conversations_are_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def chats(read: Read, operator: object) -> list[Case]:
        (case,) = read_cases(read, operator)  # type: ignore[arg-type]
        turns = (Message(role="user", content="1+1?"), Message(role="assistant", content=None))
        return [replace(case, item=case.item.model_copy(update={"messages": turns}), is_what=GIVEN)]

    monkeypatch.setattr(trial, "read_cases", chats)
    text = "def f(prompts, completions, **columns):\n    assert prompts[0][-1]['role'] == 'user'\n"
    text += "    return [float(c[0]['content'] == 'two' and c[0]['role'] == 'assistant') for c in completions]\n"
    assert [row.value for row in tried(tmp_path, text).judged] == [1.0]
