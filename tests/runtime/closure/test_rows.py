"""Verifiers are those that rows name; what cannot be known counts as any."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from components.runtime.closure.rows import MAX_VERIFIERS, named_verifiers, union


def folder(path: Path, *rows: Any, name: str = "rows.jsonl") -> Path:
    path.mkdir(exist_ok=True)
    (path / name).write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows))
    return path


def test_the_names_of_all_rows_of_all_files_count(tmp_path: Path) -> None:
    folder(tmp_path, {"verifier": "exact"}, {"verifier": "own"}, {"text": "verifier"}, name="rows-0.jsonl")
    folder(tmp_path, {"verifier": "numeric", "data": {"verifier": "choice"}}, name="rows-1.jsonl")
    assert named_verifiers(tmp_path) == ["exact", "numeric", "own"]
    assert named_verifiers(tmp_path / "rows-1.jsonl") == ["numeric"]


def test_a_name_in_escapes_is_read(tmp_path: Path) -> None:
    line = "".join(["{", chr(34), chr(92), "u0076erifier", chr(34), ": ", chr(34), "exact", chr(34), "}"])
    assert json.loads(line) == {"verifier": "exact"}
    assert named_verifiers(folder(tmp_path, line)) == ["exact"]


def test_criteria_of_a_rubric_name_verifiers(tmp_path: Path) -> None:
    criteria = [{"name": "a", "verifier": "numeric"}, {"name": "b", "verifier": {"name": "regex", "ignore_case": True}}]
    row = {"verifier": "unlabelled", "data": {"rubric": {"criteria": criteria}, "note": "exact"}}
    assert named_verifiers(folder(tmp_path, row)) == ["numeric", "regex", "unlabelled"]


def test_verifiers_inside_of_settings_count(tmp_path: Path) -> None:
    settings = {"any_of": [{"name": "numeric"}, "choice", "no verifier"]}
    assert named_verifiers(folder(tmp_path, {"verifier": "own", "data": {"settings": settings}})) == [
        "choice",
        "numeric",
        "own",
    ]


def test_plain_text_names_none(tmp_path: Path) -> None:
    assert named_verifiers(folder(tmp_path, {"text": "a"}, {"text": "b"})) == []


@pytest.mark.parametrize(
    "rows",
    [
        ["{verifier"],
        ['{"verifier": "' + "x" * 200 + '"}'],
        [{"verifier": f"v{number}"} for number in range(MAX_VERIFIERS + 2)],
        ['{"verifier": ' + "[" * 100_000 + "]" * 100_000 + "}"],
    ],
    ids=["no JSON", "a long name", "many names", "deep"],
)
def test_of_hostile_rows_nothing_is_known(tmp_path: Path, rows: list[Any]) -> None:
    assert named_verifiers(folder(tmp_path, *rows)) is None


def test_a_folder_without_rows_is_not_known(tmp_path: Path) -> None:
    assert named_verifiers(tmp_path) is None
    assert named_verifiers(tmp_path / "absent") is None


def test_one_unknown_input_makes_all_unknown() -> None:
    assert union([["b"], ["a", "b"]]) == ["a", "b"]
    assert union([["a"], None]) is None
    assert union([]) == []
