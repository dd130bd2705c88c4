"""Items of messages: rows, identifiers, columns of data sets, and one line for what is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from components.contract.errors import InputError
from components.contract.messages import Message, conversation_of, filled, written
from components.tasks.conversations import read_conversation
from components.tasks.demonstrators.running_total import RunningTotalTraceConfig
from components.tasks.demonstrators.running_total import running_total as demonstrate
from components.tasks.item import Item, item_from_row, item_id
from components.tasks.source import SourceRequest, SourceRow
from components.tasks.sources.jsonl import JsonlConfig, jsonl
from components.tasks.sources.parquet import ParquetConfig, parquet
from components.tasks.sources.running_total import RunningTotalConfig, running_total
from components.tasks.verify import verify

TALK = [
    {"role": "system", "content": "Be short."},
    {"role": "user", "content": "1 + 2?"},
    {"role": "assistant", "content": "3"},
    {"role": "user", "content": "Add 4."},
]
OPEN = [TALK[1], {"role": "assistant", "content": None}, TALK[3]]
BASE = {"id": "x", "domain": "d", "answer": "7", "verifier": "numeric"}


def item(messages: list[dict[str, Any]]) -> Item:
    return item_from_row({**BASE, "messages": messages}, "here")


def read(folder: Path, rows: list[dict[str, Any]], **columns: Any) -> list[SourceRow]:
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = JsonlConfig(path=str(path), columns=columns)
    return list(jsonl(SourceRequest(0, 99, folder), config=config).rows)  # type: ignore[arg-type]


def test_rows_of_prompts_are_what_they_were() -> None:
    row = {**BASE, "prompt": "1 + 2?", "data": {}}
    assert item_from_row(row, "here").row() == row
    assert item_from_row({**row, "messages": None}, "here").row() == row
    assert item_id("d", "1 + 2?", "3") == "d-425a1699ea3c"


def test_a_row_with_messages_goes_around() -> None:
    found = item(OPEN)
    row = json.loads(json.dumps(found.row()))
    assert row["messages"] == OPEN
    assert row["prompt"] == "user: 1 + 2?\nassistant: ...\nuser: Add 4."
    assert item_from_row(row, "here") == found
    assert item_from_row({**row, "prompt": "something else"}, "here") == found
    assert found.prompt_with(["3"]) == "user: 1 + 2?\nassistant: 3\nuser: Add 4."


def test_identifiers_tell_messages_from_their_text() -> None:
    found = item(OPEN)
    ids = {item_id("d", task, "7") for task in (found.messages, found.prompt, item(TALK).messages)}
    assert len(ids) == 3


def test_what_a_policy_wrote_takes_the_open_places() -> None:
    row = {**item(OPEN).row(), **written(("3", "7"))}
    whole = conversation_of(row)
    assert whole is not None
    assert [message.content for message in whole] == ["1 + 2?", "3", "Add 4.", "7"]
    assert whole[-1].learn is True
    assert filled(item(OPEN).messages, ["3"])[-1].content == "Add 4."
    for wrong, reason in (({"turns": []}, "0 `turns` and a response"), ({"turns": [1]}, "hold what the policy wrote")):
        with pytest.raises(InputError, match=reason):
            conversation_of({**row, **wrong})


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([], "prompt: Field required"),
        ([{"role": "robot", "content": "x"}], r"messages\[0\].role: Input should be 'system'"),
        ([TALK[0]], "there is none of the user"),
        ([TALK[1], TALK[3]], r"messages\[1\] is of the user, where one of the assistant belongs"),
        ([TALK[1], TALK[0]], r"messages\[1\] is of the system"),
        ([TALK[1], TALK[2]], "messages end with the assistant"),
        ([{"role": "user", "content": None}], r"messages\[0\] \(user\) has no content"),
        ([{"role": "user", "content": "x", "learn": True}], "which only an assistant's message can have"),
        ([{"role": "user", "content": ["x"]}], r"a part of the content is 'str'"),
        ([{"role": "user", "content": "a\ud800"}], r"messages\[0\]: half of a surrogate pair at character 1"),
        ("hello", "messages: Input should be a valid tuple"),
    ],
)
def test_one_line_says_what_is_wrong(messages: Any, reason: str) -> None:
    with pytest.raises(InputError, match=reason) as caught:
        item(messages)
    assert str(caught.value).startswith("here: ")
    assert "\n" not in str(caught.value)


def test_a_column_of_messages_ends_with_the_response(tmp_path: Path) -> None:
    rows = [
        {"messages": [*TALK, {"role": "assistant", "content": "<think>3+4<answer>7", "learn": False, "name": None}]},
        {"messages": [TALK[1], {"role": "assistant", "content": [{"type": "text", "text": "3"}]}]},
        {"messages": [*OPEN, {"role": "assistant", "content": None}], "answer": 7},
    ]
    long, short, unwritten = read(tmp_path, rows, messages="messages")
    assert [message.content for message in long.messages] == ["Be short.", "1 + 2?", "3", "Add 4."]
    assert (long.response, long.answer, long.extras) == ("<think>3+4<answer>7", "7", {"learn": False})
    assert (short.prompt, short.messages, short.response) == ("1 + 2?", (), "3")
    assert short.item("d").id == item_id("d", "1 + 2?", "3"), "the id is that of the prompt"
    assert (len(unwritten.messages), unwritten.response, unwritten.answer) == (3, None, "7")


def test_columns_with_from_and_value(tmp_path: Path) -> None:
    talk = [{"from": "human", "value": "1 + 2?"}, {"from": "gpt", "value": "3"}, {"from": "human", "value": "Add 4."}]
    (row,) = read(tmp_path, [{"conversations": [*talk, {"from": "gpt", "value": "7"}]}], messages="conversations")
    assert [message.role for message in row.messages] == ["user", "assistant", "user"]
    assert row.response == "7"


def test_parquet_pads_messages_with_empty_keys(tmp_path: Path) -> None:
    import pyarrow
    from pyarrow import parquet as files

    talks = [[*TALK, {"role": "assistant", "content": "7", "learn": True}], [TALK[1], TALK[2]]]
    files.write_table(pyarrow.table({"messages": talks}), tmp_path / "t.parquet")
    config = ParquetConfig(path=str(tmp_path / "t.parquet"), columns={"messages": "messages"})
    one, two = parquet(SourceRequest(0, 99, tmp_path), config=config).rows
    assert (one.extras, two.extras) == ({"learn": True}, {})  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("hi", "expected a list of messages, found str"),
        (["hi"], r"talk\[0\]: expected an object"),
        ([{"role": "critic", "content": "x"}], r"talk\[0\]: the role is 'critic'; messages are of system, user"),
        ([{"role": "tool", "content": "x"}], r"messages\[0\] is of the tool, where one of the user belongs"),
        ([{"role": ["user"], "content": "x"}], r"the role is \['user'\]"),
        ([TALK[1], {"role": "assistant", "content": None, "tool_calls": [1]}], r"talk\[1\]: tool_calls\[0\]: expected"),
        ([{"role": "user", "content": [{"type": "image"}]}], r"a part of the content is 'image'"),
        ([{"role": "user", "content": 3}], "the content is of type int"),
        ([TALK[1], {"role": "assistant", "content": " "}], r"messages\[1\] \(assistant\) has no text"),
        ([TALK[1], {"role": "assistant", "content": "x", "learn": 1}], "learn is 1, expected true or false"),
        ([TALK[2]], r"column 'talk': messages\[0\] is of the assistant"),
    ],
)
def test_one_line_says_what_is_wrong_with_a_column(value: Any, reason: str) -> None:
    with pytest.raises(InputError, match=reason) as caught:
        read_conversation(value, "talk")
    assert "\n" not in str(caught.value)


def test_running_totals_are_endless_seeded_and_solved_by_their_demonstrator(tmp_path: Path) -> None:
    config = RunningTotalConfig(turns=3, subtract=True)
    first, again = (list(running_total(SourceRequest(4, 40, tmp_path), config=config).rows) for _ in range(2))
    assert first == again
    assert len({str(row.messages) for row in first}) > 35  # type: ignore[union-attr]
    for row in first:
        found = row.item("d")  # type: ignore[union-attr]
        turns = demonstrate(found, Random(0), config=RunningTotalTraceConfig())
        assert len(turns) == 3
        assert verify(found, turns[-1]).right
        assert not verify(found, turns[0]).right or found.data["changes"][1] + found.data["changes"][2] == 0


def test_a_sloppy_worker_goes_on_from_a_wrong_total() -> None:
    found = Item(
        **{**BASE, "messages": [Message(role="user", content="1 + 2?")], "data": {"start": 1, "changes": [2, 4]}},
    )  # type: ignore[arg-type]
    one, two = demonstrate(found, Random(1), config=RunningTotalTraceConfig(step_error_rate=1.0, max_step_error=1))
    wrong = int(one.rpartition(">")[2])
    assert abs(wrong - 3) == 1
    assert two.startswith(f"<think>{wrong}+4=")
    with pytest.raises(InputError, match="is not of source running_total"):
        demonstrate(item(OPEN), Random(0), config=RunningTotalTraceConfig())
