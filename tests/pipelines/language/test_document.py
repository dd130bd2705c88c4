"""YAML documents: values, places and limits."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from pipelines.language.document import MAX_BYTES, Mark, parse, read_document
from pipelines.language.problems import RecipeErrors


def test_scalars_follow_yaml_1_2() -> None:
    text = """
    int: 12
    grouped: 1_000
    float: 1.5
    exponent: 1e-4
    point: .5
    yes: yes
    on: on
    time: 1:30
    date: 2024-05-06
    octal: 010
    truth: true
    none: ~
    empty:
    quoted: "12"
    block: |
      two
      lines
    """
    assert parse(text, "f").plain() == {
        "int": 12,
        "grouped": 1000,
        "float": 1.5,
        "exponent": 1e-4,
        "point": 0.5,
        "yes": "yes",
        "on": "on",
        "time": "1:30",
        "date": "2024-05-06",
        "octal": 10,
        "truth": True,
        "none": None,
        "empty": None,
        "quoted": "12",
        "block": "two\nlines\n",
    }


def test_every_value_has_its_place() -> None:
    root = parse("a: {b: 1, c: [x, 2]}\nd:\n  e: on", "f")
    assert root.find(("a", "c", 1)).mark == Mark("f", 1, 18)
    assert root.find(("a", "b")).where == Mark("f", 1, 5)
    assert root.find(("d", "e")).mark == Mark("f", 3, 6)
    assert root.find(("d", "x")) is None
    assert root.at(("d", "x", "e")).mark == Mark("f", 3, 6)


def test_aliases_stand_where_they_are_used() -> None:
    root = parse("a: &x [1, 2]\nb: {c: *x}", "f")
    assert root.find(("b", "c")).plain() == [1, 2]
    assert root.find(("b", "c")).mark == Mark("f", 2, 8)


def test_a_hostile_file_is_refused_before_it_costs_anything() -> None:
    start = time.process_time()
    for text in ("[" * 900_000, "{a: " * 200_000, "- " * 500_000, "&a " * 300_000):
        with pytest.raises(RecipeErrors):
            parse(text, "f")
    assert time.process_time() - start < 5


def test_a_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "large.yaml"
    path.write_bytes(b"#" * (MAX_BYTES + 1))
    with pytest.raises(RecipeErrors, match="larger than 1 MiB"):
        read_document(path)
    path.write_bytes(b"name: x\n" + b"#" * (MAX_BYTES - 8))
    assert read_document(path).root.plain() == {"name": "x"}


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(RecipeErrors, match="a folder, not a file"):
        read_document(tmp_path)
    with pytest.raises(RecipeErrors, match="No such file"):
        read_document(tmp_path / "none.yaml")
