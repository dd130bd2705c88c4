"""Source file: shapes of rows that other tools write, formats of files, what is kept, refused and asked for."""

from __future__ import annotations

import csv
import datetime
import gzip
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import feather, parquet

from components.contract.errors import InputError
from components.contract.messages import Message
from components.contract.operators import OperatorSpec
from components.tasks.source import BadRow, SourceRequest, SourceRow, SourceRows

Rows = list[dict[str, Any]]


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


SYSTEM = {"role": "system", "content": "Be brief."}
ASKED = (Message(role="system", content="Be brief."), Message(role="user", content="2 + 2?"))


def opened(path: Path, **spec: Any) -> SourceRows:
    request = SourceRequest(seed=0, limit=1 << 40, scratch=path.parent)
    return OperatorSpec.model_validate({"name": "file", "path": str(path), **spec}).resolve("source")(request)


def written(folder: Path, rows: Rows, name: str = "mine.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def first(folder: Path, *rows: dict[str, Any], **spec: Any) -> SourceRow:
    row = next(opened(written(folder, list(rows)), **spec).rows)
    assert isinstance(row, SourceRow)
    return row


def refusal(folder: Path, *rows: dict[str, Any], **spec: Any) -> str:
    with pytest.raises(InputError) as refused:
        list(opened(written(folder, list(rows)), **spec).rows)
    assert "\n" not in str(refused.value)
    return str(refused.value)


TASKS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "TRL, texts": (
        {"prompt": "2 + 2?", "completion": "4"},
        {"prompt": "2 + 2?", "response": "4", "answer": "4", "verifier": "exact"},
    ),
    "TRL, chat": (
        {"prompt": [SYSTEM, user("2 + 2?")], "completion": [assistant("4")]},
        {"messages": ASKED, "response": "4", "answer": "4", "prompt": ""},
    ),
    "OpenAI": (
        {"messages": [SYSTEM, user("2 + 2?"), assistant("4")]},
        {"messages": ASKED, "response": "4"},
    ),
    "ShareGPT with a system column": (
        {"conversations": [{"from": "human", "value": "2 + 2?"}, {"from": "gpt", "value": "4"}], "system": "Be brief."},
        {"messages": ASKED, "response": "4"},
    ),
    "Alpaca": (
        {"instruction": "Add the numbers.", "input": "2, 2", "output": "4"},
        {"prompt": "Add the numbers.\n\n2, 2", "response": "4"},
    ),
    "Alpaca without input": ({"instruction": "2 + 2?", "input": "", "output": "4"}, {"prompt": "2 + 2?"}),
    "LLaMA-Factory with history": (
        {"instruction": "and 2 + 2?", "input": "", "output": "4", "history": [["1 + 1?", "2"]]},
        {"messages": (
            Message(role="user", content="1 + 1?"),
            Message(role="assistant", content="2"),
            Message(role="user", content="and 2 + 2?"),
        )},
    ),
    "verl": (
        {
            "data_source": "my/sums",
            "prompt": [SYSTEM, user("2 + 2?")],
            "ability": "math",
            "reward_model": {"style": "rule", "ground_truth": "4"},
            "extra_info": {"index": 7},
        },
        {
            "messages": ASKED,
            "answer": "4",
            "verifier": "numeric",
            "domain": "my/sums",
            "data": {
                "data_source": "my/sums",
                "ability": "math",
                "reward_model": {"style": "rule", "ground_truth": "4"},
                "extra_info": {"index": 7},
            },
        },
    ),
    "verifiers": (
        {"question": "2 + 2?", "answer": "four", "info": {"level": 1}, "task": "sums"},
        {"prompt": "2 + 2?", "answer": "four", "verifier": "exact", "data": {"info": {"level": 1}, "task": "sums"}},
    ),
    "GSM8K": (
        {"question": "2 + 2?", "answer": "Two and two.\n#### 4"},
        {"answer": "4", "response": "Two and two.\n#### 4", "verifier": "numeric"},
    ),
    "MATH": (
        {"problem": "2 + 2?", "solution": "So $\\boxed{4}$.", "level": "1"},
        {"answer": "4", "response": "So $\\boxed{4}$.", "data": {"level": "1"}},
    ),
    "query and target": ({"query": "2 + 2?", "target": 4}, {"prompt": "2 + 2?", "answer": "4", "verifier": "numeric"}),
    "one message of the user stays a message": (
        {"prompt": [user("2 + 2?")], "answer": "4"},
        {"messages": (Message(role="user", content="2 + 2?"),), "answer": "4"},
    ),
    "history in a prompt": (
        {"prompt": [user("1 + 1?"), assistant("2"), user("2 + 2?")], "answer": "4"},
        {"messages": (
            Message(role="user", content="1 + 1?"),
            Message(role="assistant", content="2"),
            Message(role="user", content="2 + 2?"),
        )},
    ),
    "OpenRLHF's prompts": ({"context_messages": [user("2 + 2?")]}, {"answer": "", "verifier": "unlabelled"}),
    "OpenRLHF's SFT": ({"input": "2 + 2?", "output": "4"}, {"prompt": "2 + 2?", "response": "4"}),
    "OpenOrca": ({"system_prompt": "Be brief.", "question": "2 + 2?", "response": "4"}, {"messages": ASKED}),
    "a list of answers": (
        {"question": "2 + 2?", "answer": ["4", "four"]},
        {"answer": "4", "data": {"aliases": ["four"]}, "verifier": "exact"},
    ),
    "text": ({"text": "Two and two is four.", "url": "x"}, {"text": "Two and two is four."}),
    "leading zeros are no numbers": ({"question": "Code?", "answer": "007"}, {"answer": "007", "verifier": "exact"}),
}  # fmt: skip


@pytest.mark.parametrize("name", TASKS)
def test_rows_of_other_tools_become_ours(name: str, tmp_path: Path) -> None:
    row, wanted = TASKS[name]
    found = first(tmp_path, row)
    assert {field: getattr(found, field) for field in wanted} == wanted


JUDGED: dict[str, dict[str, Any]] = {
    "explicit prompt": {"prompt": "2 + 2?", "chosen": "4", "rejected": "5"},
    "implicit prompt": {"chosen": "2 + 2? 4", "rejected": "2 + 2? 5"},
    "chat": {"prompt": [user("2 + 2?")], "chosen": [assistant("4")], "rejected": [assistant("5")]},
    "whole conversations": {
        "prompt": "2 + 2?",
        "chosen": [user("2 + 2?"), assistant("4")],
        "rejected": [user("2 + 2?"), assistant("5")],
        "messages": [user("2 + 2?"), assistant("4")],
    },
    "LLaMA-Factory": {
        "conversations": [{"from": "human", "value": "2 + 2?"}],
        "chosen": {"from": "gpt", "value": "4"},
        "rejected": {"from": "gpt", "value": "5"},
    },
    "axolotl": {"question": "2 + 2?", "chosen": "4", "rejected": "5"},
}


@pytest.mark.parametrize("name", JUDGED)
def test_pairs_in_every_form_hold_both_sides(name: str, tmp_path: Path) -> None:
    found = first(tmp_path, JUDGED[name])
    assert found.prompt == "2 + 2?" and found.verifier == "unlabelled"
    assert {side: found.extras[side].strip() for side in ("chosen", "rejected")} == {"chosen": "4", "rejected": "5"}


def test_scores_of_a_pair_are_its_margin(tmp_path: Path) -> None:
    found = first(tmp_path, {**JUDGED["chat"], "score_chosen": 8.0, "score_rejected": 3.0, "origin": "mine"})
    assert found.extras["margin"] == 5.0
    assert found.data["origin"] == "mine"


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": "2 + 2?", "completion": "4", "label": True},
        {"prompt": [user("2 + 2?")], "completion": [assistant("4")], "label": 1},
        {"messages": [user("2 + 2?"), assistant("4")], "kto_tag": True},
        {"instruction": "2 + 2?", "input": "", "output": "4", "label": "True"},
    ],
)
def test_unpaired_rows_hold_response_and_label(row: dict[str, Any], tmp_path: Path) -> None:
    found = first(tmp_path, row)
    assert (found.prompt, found.extras) == ("2 + 2?", {"completion": "4", "label": True})


SUMS: Rows = [{"question": f"{n}, plus 1?", "answer": str(n + 1), "code": f"00{n}"} for n in range(4)]


def as_csv(path: Path, separator: str = ",", mark: str = "", end: str = "\n") -> None:
    with path.open("w", newline="", encoding="utf-8") as stream:
        stream.write(mark)
        writer = csv.DictWriter(stream, list(SUMS[0]), delimiter=separator, lineterminator=end)
        writer.writeheader()
        writer.writerows(SUMS)


def as_lines(mark: str = "", end: str = "\n") -> bytes:
    return (mark + "".join(json.dumps(row) + end for row in SUMS)).encode()


def as_stream(path: Path) -> None:
    table = pyarrow.Table.from_pylist(SUMS)
    with pyarrow.ipc.new_stream(path, table.schema) as stream:
        stream.write_table(table)


FORMATS: dict[str, Callable[[Path], Any]] = {
    "a.jsonl": lambda path: path.write_bytes(as_lines()),
    "mark.jsonl": lambda path: path.write_bytes(as_lines("\ufeff", "\r\n")),
    "a.ndjson.gz": lambda path: path.write_bytes(gzip.compress(as_lines())),
    "a.jsonl.zst": lambda path: path.write_bytes(pyarrow.Codec("zstd").compress(as_lines(), asbytes=True)),
    "list.json": lambda path: path.write_text(json.dumps(SUMS, indent=1)),
    "data.json": lambda path: path.write_text(json.dumps({"version": "1", "data": SUMS})),
    "lines.json": lambda path: path.write_bytes(as_lines()),
    "list.json.gz": lambda path: path.write_bytes(gzip.compress(json.dumps(SUMS).encode())),
    "a.csv": as_csv,
    "mark.csv": lambda path: as_csv(path, mark="\ufeff", end="\r\n"),
    "semicolon.csv": lambda path: as_csv(path, ";"),
    "A.CSV": as_csv,
    "a.tsv": lambda path: as_csv(path, "\t"),
    "a.parquet": lambda path: parquet.write_table(pyarrow.Table.from_pylist(SUMS), path),
    "a.feather": lambda path: feather.write_feather(pyarrow.Table.from_pylist(SUMS), str(path)),
    "a.arrow": as_stream,
}


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_same_rows(name: str, tmp_path: Path) -> None:
    FORMATS[name](tmp_path / name)
    rows = [row for row in opened(tmp_path / name).rows if isinstance(row, SourceRow)]
    assert [(row.prompt, row.answer, row.data["code"]) for row in rows] == [
        (row["question"], row["answer"], row["code"]) for row in SUMS
    ]
    assert {row.verifier for row in rows} == {"numeric"}


def test_a_folder_of_save_to_disk_is_read_past_its_notes(tmp_path: Path) -> None:
    import datasets

    datasets.Dataset.from_list(SUMS).save_to_disk(tmp_path / "saved")
    assert len(list(opened(tmp_path / "saved").rows)) == 4


def test_a_folder_of_several_formats_is_refused(tmp_path: Path) -> None:
    as_csv(tmp_path / "a.csv")
    written(tmp_path, SUMS)
    with pytest.raises(InputError, match=r"several formats, such as a\.csv and mine\.jsonl; name a pattern"):
        opened(tmp_path)


def test_one_line_says_what_became_what(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    opened(written(tmp_path, [{"prompt": "a", "chosen": "b", "rejected": "c", "source": "mine"}], "pairs.jsonl"))
    assert capsys.readouterr().out == (
        "source file: pairs.jsonl: TRL preference pairs (prompt, chosen, rejected); extra columns kept: source; "
        "no answers to verify: say verifiability: off\n"
    )


def test_tables_with_times_decimals_and_missing_numbers(tmp_path: Path) -> None:
    """Times and decimals become text; NaN of an extra column is null; a NaN answer is a bad row."""
    table = pyarrow.table(
        {
            "question": ["a", "b"],
            "answer": pyarrow.array([1.5, float("nan")]),
            "price": pyarrow.array([Decimal("1.50"), Decimal("2.25")]),
            "when": pyarrow.array([datetime.datetime(2026, 1, 2, 3, 4)] * 2),
            "score": pyarrow.array([float("nan"), 2.0]),
            "picture": pyarrow.array([b"\x00\xff", b"\x00"]),
        }
    )
    parquet.write_table(table, tmp_path / "a.parquet")
    source = opened(tmp_path / "a.parquet", bad_rows="drop")
    good, bad = source.rows
    assert isinstance(good, SourceRow) and isinstance(bad, BadRow)
    assert good.data == {"price": "1.50", "when": "2026-01-02T03:04:00"}
    assert (bad.where, bad.problem) == ("a.parquet:row 2", "the answer is nan, which is no number (column 'answer')")
    assert "left out: picture (bytes, which a dataset cannot hold)" in source.origin["read_as"]


def test_a_nan_answer_is_a_bad_row_of_every_source(tmp_path: Path) -> None:
    parquet.write_table(pyarrow.table({"prompt": ["a"], "answer": [float("nan")]}), tmp_path / "a.parquet")
    spec = OperatorSpec.model_validate({"name": "parquet", "path": str(tmp_path / "a.parquet")})
    with pytest.raises(InputError, match=r"^a\.parquet:row 1: the answer is nan"):
        list(spec.resolve("source")(SourceRequest(seed=0, limit=9, scratch=tmp_path)).rows)


def test_a_system_message_reaches_the_row_in_the_old_sources_too(tmp_path: Path) -> None:
    found = first(tmp_path, {"prompt": [SYSTEM, user("2 + 2?")], "answer": "4"}, name="jsonl")
    assert found.messages == ASKED
    plain = first(tmp_path, {"prompt": [user("2 + 2?")], "answer": "4"}, name="jsonl")
    assert (plain.prompt, plain.messages) == ("2 + 2?", ())  # ids of existing data sets stay


def test_what_cannot_be_decided_is_asked_for_with_the_line(tmp_path: Path) -> None:
    row = {"q": "2 + 2?", "a": "4"}
    assert refusal(tmp_path, row).endswith("(columns: q, a); write columns: {prompt: ..., answer: ...}")
    assert first(tmp_path, row, columns={"prompt": "q", "answer": "a"}).answer == "4"
    row = {"prompt": "2 + 2?", "reply": "4"}
    assert refusal(tmp_path, row).endswith("write columns: {prompt: prompt, answer: reply}")
    assert first(tmp_path, row, format="prompts").verifier == "unlabelled"
    row = {"question": "2?", "problem": "2 + 2?", "answer": "4"}
    assert "question and problem could each be the prompt" in refusal(tmp_path, row)
    assert first(tmp_path, row, columns={"prompt": "problem"}).prompt == "2 + 2?"
    row = {"text": "2 + 2?", "label": "sum"}
    assert refusal(tmp_path, row).endswith("write columns: {prompt: text, answer: label}")


def test_answers_within_objects_are_named_by_the_recipe(tmp_path: Path) -> None:
    row = {"prompt": [user("2 + 2?")], "reward_model": {"ground_truth": {"target": ["4", "four"]}}}
    assert refusal(tmp_path, row).endswith("name its part, columns: {answer: reward_model.ground_truth.target}")
    found = first(tmp_path, row, columns={"answer": "reward_model.ground_truth.target"})
    assert (found.answer, found.data["aliases"]) == ("4", ["four"])
    assert first(tmp_path, {"question": "x", "info": {"tests": [1]}, "task": "t"}).verifier == "unlabelled"


def test_bad_rows_have_file_and_place(tmp_path: Path) -> None:
    good = {"question": "2 + 2?", "answer": "4"}
    assert refusal(tmp_path, good, {"question": "2 + 3?"}) == "mine.jsonl:2: the answer is missing (column 'answer')"
    many = [good] * 100 + [{"question": "2 + 3?", "answer": "five"}]
    assert refusal(tmp_path, *many).startswith("mine.jsonl:101: the answer 'five' is no number")
    (tmp_path / "twice.jsonl").write_text('{"question": "a", "answer": "1", "answer": "2"}\n')
    with pytest.raises(InputError, match=r"^twice\.jsonl:1: the key 'answer' is twice in one object"):
        opened(tmp_path / "twice.jsonl")
    (tmp_path / "ragged.csv").write_text("question,answer\na,1\nb,2,3\n")
    with pytest.raises(InputError, match=r"^ragged\.csv:3: 3 cells, where the header has 2"):
        list(opened(tmp_path / "ragged.csv").rows)
    (tmp_path / "wide.jsonl").write_bytes(json.dumps(good).encode("utf-16"))
    with pytest.raises(InputError, match=r"^wide\.jsonl: this file is in UTF-16; save it as UTF-8"):
        opened(tmp_path / "wide.jsonl")
    (tmp_path / "empty.csv").write_text("question,answer\n")
    with pytest.raises(InputError, match=r"^empty\.csv: there are no rows"):
        opened(tmp_path / "empty.csv")


def test_a_column_of_conversations_is_advised_as_one(tmp_path: Path) -> None:
    row = {"messages": [user("2 + 2?"), assistant("4")]}
    assert refusal(tmp_path, row, name="jsonl").endswith("write columns: {messages: messages}")


def test_names_of_ours_never_come_from_a_file(tmp_path: Path) -> None:
    row = {
        "question": "2 + 2?",
        "answer": "4",
        "settings": {"absolute_tolerance": 9},
        "right_responses": ["x"],
        "id": 1,
    }
    assert first(tmp_path, row).data == {}
