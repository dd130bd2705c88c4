"""Sources: every format, column mapping, bad rows by file and line, unicode, emptiness and size."""

from __future__ import annotations

import gzip
import hashlib
import json
import time
import tracemalloc
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from components.contract.errors import InputError, StoreUnavailable
from components.contract.operators import OperatorSpec
from components.tasks.source import BadRow, SourceRequest, SourceRow, SourceRows

ROWS = [
    {"question": "1 + 1?", "solution": "first\n#### 2", "key": "a", "meta": {"level": "easy", "choices": ["2", "3"]}},
    {
        "question": "\u6771\u4eac \u2028 caf\u00e9?",
        "solution": "#### 3",
        "key": "b",
        "meta": {"level": "hard", "choices": ["3"]},
    },
]
COLUMNS = {"prompt": "question", "answer": "solution", "id": "key", "domain": "meta.level", "data": ["meta.choices"]}


def open_source(tmp_path: Path, datasets: tuple[Path, ...] = (), **spec: Any) -> SourceRows:
    request = SourceRequest(seed=0, limit=1 << 40, scratch=tmp_path / "scratch", datasets=datasets)
    return OperatorSpec.model_validate(spec).resolve("source")(request)


def write_lines(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def check_rows(opened: SourceRows) -> None:
    first, second = [row for row in opened.rows if isinstance(row, SourceRow)]
    assert (first.prompt, first.answer, first.id, first.domain) == ("1 + 1?", "2", "a", "easy")
    assert first.data == {"choices": ["2", "3"], "settings": {"absolute_tolerance": 0.5}}
    assert first.verifier == "numeric"
    assert second.prompt == ROWS[1]["question"]


MAPPED: dict[str, Any] = {
    "columns": COLUMNS,
    "final_answer": True,
    "verifier": {"name": "numeric", "absolute_tolerance": 0.5},
}


def test_jsonl_with_mapped_columns(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "train.jsonl", ROWS)
    opened = open_source(tmp_path, name="jsonl", path=str(path), **MAPPED)
    check_rows(opened)
    assert opened.origin == {
        "source": "jsonl",
        "name": "train.jsonl",
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "num_files": 1,
    }


def test_gzip_folders_and_patterns_are_read_in_order(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    write_lines(data / "b.jsonl", ROWS[1:])
    with gzip.open(data / "a.jsonl.gz", "wt", encoding="utf-8") as stream:
        stream.write(json.dumps(ROWS[0]) + "\n")
    check_rows(open_source(tmp_path, name="jsonl", path=str(data), **MAPPED))
    pattern = str(data / "*.jsonl")
    assert len(list(open_source(tmp_path, name="jsonl", path=pattern, **MAPPED).rows)) == 1


def test_parquet(tmp_path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.Table.from_pylist(ROWS), tmp_path / "train.parquet")
    check_rows(open_source(tmp_path, name="parquet", path=str(tmp_path / "train.parquet"), **MAPPED))


def test_a_parquet_file_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_bytes(b"not parquet at all")
    with pytest.raises(InputError, match=r"x\.parquet: not a readable Parquet file"):
        list(open_source(tmp_path, name="parquet", path=str(tmp_path / "x.parquet")).rows)


def test_hf_saved_to_disk(tmp_path: Path) -> None:
    import datasets

    datasets.Dataset.from_list(ROWS).save_to_disk(tmp_path / "saved")
    check_rows(open_source(tmp_path, name="hf", dataset=str(tmp_path / "saved"), **MAPPED))
    datasets.DatasetDict({"test": datasets.Dataset.from_list(ROWS)}).save_to_disk(tmp_path / "splits")
    opened = open_source(tmp_path, name="hf", dataset=str(tmp_path / "splits"), split="test", **MAPPED)
    assert opened.origin["num_rows"] == 2
    check_rows(opened)


def test_hf_folder_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    (tmp_path / "data").mkdir()
    write_lines(tmp_path / "data" / "train.jsonl", ROWS)
    check_rows(open_source(tmp_path, name="hf", dataset=str(tmp_path / "data"), **MAPPED))


def test_hf_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot load"):
        open_source(tmp_path, name="hf", dataset=str(tmp_path / "nothing"))


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_s3_over_http(tmp_path: Path, s3_uri: str, suffix: str) -> None:
    import boto3
    import pyarrow
    from pyarrow import parquet

    local = write_lines(tmp_path / "x.jsonl", ROWS)
    if suffix == "parquet":
        local = tmp_path / "x.parquet"
        parquet.write_table(pyarrow.Table.from_pylist(ROWS), local)
    bucket, prefix = s3_uri.removeprefix("s3://").split("/", 1)
    boto3.client("s3").upload_file(str(local), bucket, f"{prefix}/x.{suffix}")
    digest = hashlib.sha256(local.read_bytes()).hexdigest()
    opened = open_source(tmp_path, name="s3", path=f"{s3_uri}/x.{suffix}", sha256=digest, **MAPPED)
    assert opened.origin["sha256"] == digest
    check_rows(opened)
    (tmp_path / "again").mkdir()
    check_rows(open_source(tmp_path / "again", name="s3", path=f"{s3_uri}/", **MAPPED))
    name = "parquet" if suffix == "parquet" else "jsonl"
    check_rows(open_source(tmp_path / "table", name=name, path=f"{s3_uri}/x.{suffix}", **MAPPED))


def test_s3_errors_name_the_object(tmp_path: Path, s3_uri: str) -> None:
    with pytest.raises(InputError, match=r"cannot read s3://.*/no\.jsonl"):
        open_source(tmp_path, name="s3", path=f"{s3_uri}/no.jsonl")
    with pytest.raises(InputError, match="no JSONL or Parquet object"):
        open_source(tmp_path, name="s3", path=f"{s3_uri}/")
    with pytest.raises(InputError, match="expected s3://bucket/key"):
        open_source(tmp_path, name="s3", path="http://x/y")


def test_s3_is_asked_again_after_failures_that_pass(tmp_path: Path, s3_uri: str, fault_proxy: Any) -> None:
    import boto3

    bucket, prefix = s3_uri.removeprefix("s3://").split("/", 1)
    boto3.client("s3").upload_file(str(write_lines(tmp_path / "x.jsonl", ROWS)), bucket, f"{prefix}/x.jsonl")
    proxy = fault_proxy(share=0.0)
    proxy.plan("error503", method="GET", path="x.jsonl", times=2)
    proxy.plan("truncate", method="GET", path="x.jsonl", times=2)
    check_rows(open_source(tmp_path / "scratch", name="s3", path=f"{s3_uri}/x.jsonl", **MAPPED))
    assert proxy.injected == {"error503": 2, "truncate": 2}


def test_a_bucket_that_cannot_be_read_may_be_tried_again(tmp_path: Path, s3_uri: str) -> None:
    with pytest.raises(StoreUnavailable, match=r"source s3://no-such-bucket/x/: .*Check the bucket's name"):
        open_source(tmp_path, name="s3", path="s3://no-such-bucket/x/")
    with pytest.raises(InputError, match=r"cannot be a file's name: '\.\.'"):
        open_source(tmp_path, name="s3", path=f"{s3_uri}/..")


def test_a_pinned_digest_must_hold(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "x.jsonl", ROWS)
    with pytest.raises(InputError, match="the recipe pins 000"):
        open_source(tmp_path, name="jsonl", path=str(path), sha256="0" * 64)


def test_artifacts_keep_what_earlier_stages_knew(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    folder.mkdir()
    item = {"id": "A-1", "domain": "A", "prompt": "?", "answer": "1", "verifier": "numeric", "data": {}}
    rows = [{**item, "pass_rate": 0.5, "response": "1"}, {**item, "id": "B-1", "domain": "B"}]
    write_lines(folder / "rows.jsonl", rows)
    found = list(open_source(tmp_path, (folder,), name="artifact", domains=["A"]).rows)
    (row,) = found
    assert isinstance(row, SourceRow)
    assert (row.id, row.domain, row.response, row.extras) == ("A-1", "A", "1", {"pass_rate": 0.5})
    with pytest.raises(InputError, match="dataset 1 of 1"):
        open_source(tmp_path, (folder,), name="artifact", dataset=1)
    with pytest.raises(InputError, match="no dataset is connected"):
        open_source(tmp_path, name="artifact")


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b'{"prompt": "x", "answer": ', "not a line of JSON"),
        (b'{"prompt": "\xff", "answer": "1"}', "not UTF-8"),
        (b"[1, 2]", "expected a JSON object, found list"),
        (b'{"prompt": "x", "answer": NaN}', "NaN is no JSON number"),
        (b'{"prompt": "x", "answr": "1"}', "no column 'answer'; set columns.answer; did you mean 'answr'"),
        (b'{"prompt": "", "answer": "1"}', "the prompt is empty (column 'prompt')"),
        (b'{"prompt": "x", "answer": null}', "the answer is no text, but NoneType (column 'answer')"),
        (b'{"prompt": "x", "answer": true}', "the answer is no text, but bool (column 'answer')"),
        (b'{"prompt": "\\ud800", "answer": "1"}', "half of a surrogate pair"),
        (b'{"prompt": [{"role": "system", "content": "x"}], "answer": "1"}', "one of the user, found 0"),
        (b"[" * 100_000, "not a line of JSON"),
    ],
)
def test_bad_rows_are_named_by_file_and_line(tmp_path: Path, line: bytes, problem: str) -> None:
    good = b'{"prompt": [{"role": "user", "content": "x"}], "answer": 1}'
    (tmp_path / "train.jsonl").write_bytes(good + b"\n\n" + line + b"\n" + good)
    with pytest.raises(InputError) as caught:
        list(open_source(tmp_path, name="jsonl", path=str(tmp_path / "train.jsonl")).rows)
    assert str(caught.value).startswith("train.jsonl:3: ")
    assert problem in str(caught.value)
    rows = list(open_source(tmp_path, name="jsonl", path=str(tmp_path / "train.jsonl"), bad_rows="drop").rows)
    assert [type(row) for row in rows] == [SourceRow, BadRow, SourceRow]
    assert problem in str(rows[1])


def test_missing_and_empty_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        open_source(tmp_path, name="jsonl", path=str(tmp_path / "no.jsonl"))
    (tmp_path / "empty.jsonl").touch()
    assert list(open_source(tmp_path, name="jsonl", path=str(tmp_path / "empty.jsonl")).rows) == []


def test_wrong_verifiers_are_refused_before_the_first_row(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "x.jsonl", [{"prompt": "x", "answer": "1"}])
    for verifier in ("numerik", {"name": "numeric", "tolerance": 1}):
        with pytest.raises(InputError, match="numeri"):
            list(open_source(tmp_path, name="jsonl", path=str(path), verifier=verifier).rows)


def test_a_hundred_thousand_rows_stream(tmp_path: Path) -> None:
    path = tmp_path / "big.jsonl"
    line = json.dumps({"prompt": "what is " + "x" * 200, "answer": "1"}) + "\n"
    path.write_text(line * 100_000)
    started = time.process_time()
    count = sum(1 for _ in open_source(tmp_path, name="jsonl", path=str(path)).rows)
    assert count == 100_000
    assert time.process_time() - started < 10
    tracemalloc.start()
    assert sum(1 for _ in islice(open_source(tmp_path, name="jsonl", path=str(path)).rows, 10_000)) == 10_000
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 << 20, "rows must not pile up"


def test_a_column_of_weights_stays_with_its_row(tmp_path: Path) -> None:
    rows = [{"prompt": "x", "answer": "1", "w": 2}, {"prompt": "y", "answer": "1", "w": -1}]
    path = write_lines(tmp_path / "rows.jsonl", rows)
    opened = open_source(tmp_path, name="jsonl", path=str(path), columns={"weight": "w"}, bad_rows="drop")
    first, second = opened.rows
    assert isinstance(first, SourceRow) and first.extras == {"weight": 2.0}
    assert isinstance(second, BadRow) and "weight -1 is no finite number from 0" in second.problem
