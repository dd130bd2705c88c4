"""Rows on disk: canonical bytes, shards, rollouts, and errors by file and line."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.contract.errors import InputError
from components.tasks.item import Item, item_id
from components.tasks.rows import parse_line, read_items, read_rows, write_rows
from components.tasks.seeds import derive_rng, derive_seed

ROW = {"id": "A-1", "domain": "A", "prompt": "?", "answer": "1", "verifier": "exact", "data": {"k": [1]}}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@settings(max_examples=40, deadline=None)
@given(rows=st.lists(st.dictionaries(st.text(), JSON), max_size=4))
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, object]]) -> None:
    folder = tmp_path_factory.mktemp("rows")
    assert write_rows(folder, rows) == len(rows)
    assert read_rows(folder) == rows


def test_bytes_do_not_depend_on_key_order(tmp_path: Path) -> None:
    for name, row in (("a", ROW), ("b", dict(reversed(ROW.items())))):
        (tmp_path / name).mkdir()
        write_rows(tmp_path / name, [row])
    assert (tmp_path / "a" / "rows.jsonl").read_bytes() == (tmp_path / "b" / "rows.jsonl").read_bytes()


def test_shards_are_read_in_order_of_their_names(tmp_path: Path) -> None:
    for number in (2, 0, 1):
        (tmp_path / f"rows-{number:05d}.jsonl").write_text(f'{{"n": {number}}}\n')
    assert [row["n"] for row in read_rows(tmp_path)] == [0, 1, 2]


def test_a_folder_without_rows_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no rows\.jsonl and no rows-\*\.jsonl"):
        read_rows(tmp_path)


def test_items_of_prompts_and_of_rollouts(tmp_path: Path) -> None:
    rollout = {key: value for key, value in ROW.items() if key != "id"} | {"prompt_id": "A-1", "reward": 1.0}
    write_rows(tmp_path, [ROW, rollout])
    assert read_items(tmp_path) == [Item.model_validate(ROW)] * 2


def test_bad_rows_are_named_by_file_and_line(tmp_path: Path) -> None:
    write_rows(tmp_path, [ROW, {**ROW, "answer": 1, "id": ""}])
    with pytest.raises(InputError, match=r"rows\.jsonl:2: .*id: .*; answer: "):
        read_items(tmp_path)


@given(st.binary(max_size=30))
def test_any_bytes_are_an_object_or_an_input_error(line: bytes) -> None:
    with suppress(InputError):
        assert isinstance(parse_line(line), dict)


def test_ids_and_seeds_come_from_content_alone() -> None:
    by_hand = hashlib.sha256(b"1:A" + b"7:1 + 1 =" + b"1:2").hexdigest()
    assert item_id("A", "1 + 1 =", "2") == f"A-{by_hand[:12]}"
    assert item_id("A", "1", "2") != item_id("A", "12", "")
    assert derive_seed(0, "a", "b") != derive_seed(0, "ab") != derive_seed(1, "ab")
    assert derive_rng(3, "x").random() == derive_rng(3, "x").random()
    assert 0 <= derive_seed(0) < 1 << 63
