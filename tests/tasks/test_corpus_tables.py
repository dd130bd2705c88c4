"""Corpora as other tools write them: Zstandard, datatrove's and NeMo Curator's columns, damaged files."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from components.contract.errors import InputError
from components.contract.operators import OperatorSpec
from components.tasks.source import SourceRequest, SourceRow
from components.tasks.table_files import find_files, read_table
from tests.support.stage_context import run_stage

TEXTS = ["The first text.", "\u6771\u4eac \u2028 and a second text.", "The third text."]
DATATROVE: list[dict[str, Any]] = [
    {
        "text": text,
        "id": f"<urn:uuid:{number}>",
        "metadata": {"dump": "CC-MAIN-2024-10", "url": f"https://example.org/{number}", "language_score": 0.9},
    }
    for number, text in enumerate(TEXTS)
]
NEMO_CURATOR: list[dict[str, Any]] = [
    {"text": text, "id": f"doc_id-{number:010d}", "url": "https://example.org", "language": "EN", "quality_score": 0.7}
    for number, text in enumerate(TEXTS)
]


def lines(rows: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def write_zst(path: Path, *frames: bytes) -> Path:
    codec = pyarrow.Codec("zstd")
    path.write_bytes(b"".join(codec.compress(frame, asbytes=True) for frame in frames))
    return path


def rows_of(path: Path, **spec: Any) -> list[SourceRow]:
    request = SourceRequest(seed=0, limit=1 << 40, scratch=path.parent)
    opened = OperatorSpec.model_validate({"path": str(path), **spec}).resolve("source")(request)
    return [row for row in opened.rows if isinstance(row, SourceRow)]


def test_zstandard_is_read_like_plain_lines(tmp_path: Path) -> None:
    plain = tmp_path / "a.jsonl"
    plain.write_bytes(lines(DATATROVE))
    packed = write_zst(tmp_path / "b.jsonl.zst", lines(DATATROVE))
    assert [row for _, row in read_table(packed)] == [row for _, row in read_table(plain)] == DATATROVE
    assert [where for where, _ in read_table(packed)] == ["b.jsonl.zst:1", "b.jsonl.zst:2", "b.jsonl.zst:3"]


def test_a_file_of_several_frames_is_read_to_its_end(tmp_path: Path) -> None:
    """Parallel compressors and writers that append leave one frame after another; a line may span two."""
    content = lines(DATATROVE)
    cut = len(content) // 2
    packed = write_zst(tmp_path / "a.jsonl.zst", content[:cut], content[cut:])
    assert [row for _, row in read_table(packed)] == DATATROVE


def test_a_folder_of_shards_is_read_in_order(tmp_path: Path) -> None:
    for number, row in enumerate(DATATROVE):
        write_zst(tmp_path / f"{number:05d}.jsonl.zst", lines([row]))
    found = rows_of(tmp_path, name="jsonl", columns={"text": "text", "id": "id"})
    assert [row.text for row in found] == TEXTS
    assert len(find_files(str(tmp_path), (".jsonl.zst",))) == 3


@pytest.mark.parametrize("suffix", ["gz", "zst"])
def test_a_damaged_file_is_named(tmp_path: Path, suffix: str) -> None:
    content = lines([{"text": f"text number {number}"} for number in range(50_000)])
    whole = tmp_path / f"whole.jsonl.{suffix}"
    if suffix == "gz":
        whole.write_bytes(gzip.compress(content))
    else:
        write_zst(whole, content)
    cut = tmp_path / f"cut.jsonl.{suffix}"
    cut.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    none = tmp_path / f"none.jsonl.{suffix}"
    none.write_bytes(b"these bytes are not compressed")
    for path in (cut, none):
        with pytest.raises(InputError, match=rf"{path.name}: cannot be decompressed to its end; get the file again"):
            list(read_table(path))


def test_columns_of_datatrove(tmp_path: Path) -> None:
    columns = {"text": "text", "id": "id", "domain": "metadata.dump"}
    packed = write_zst(tmp_path / "00000.jsonl.zst", lines(DATATROVE))
    parquet.write_table(pyarrow.Table.from_pylist(DATATROVE), tmp_path / "00000.parquet")
    for name, path in (("jsonl", packed), ("parquet", tmp_path / "00000.parquet")):
        found = rows_of(path, name=name, columns=columns)
        assert [(row.text, row.id, row.domain) for row in found] == [
            (row["text"], row["id"], "CC-MAIN-2024-10") for row in DATATROVE
        ]


def test_columns_of_nemo_curator(tmp_path: Path) -> None:
    columns = {"text": "text", "id": "id", "domain": "language"}
    (tmp_path / "part.jsonl").write_bytes(lines(NEMO_CURATOR))
    parquet.write_table(pyarrow.Table.from_pylist(NEMO_CURATOR), tmp_path / "part.parquet")
    for name in ("jsonl", "parquet"):
        found = rows_of(tmp_path / f"part.{name}", name=name, columns=columns)
        assert [(row.text, row.id, row.domain) for row in found] == [
            (row["text"], row["id"], "EN") for row in NEMO_CURATOR
        ]


def test_what_datatrove_writes_itself(tmp_path: Path) -> None:
    """Its Parquet writer; the one of JSONL needs a package that our tests do not install, and gives the same rows."""
    from datatrove.data import Document
    from datatrove.pipeline.writers import ParquetWriter

    documents = [Document(text=row["text"], id=row["id"], metadata=row["metadata"]) for row in DATATROVE]
    list(ParquetWriter(str(tmp_path / "written")).run(iter(documents), 0, 1))
    columns = {"text": "text", "id": "id", "domain": "metadata.dump"}
    found = rows_of(tmp_path / "written", name="parquet", columns=columns)
    assert [(row.text, row.id, row.domain) for row in found] == [
        (row["text"], row["id"], "CC-MAIN-2024-10") for row in DATATROVE
    ]


def test_a_compressed_corpus_through_curate(tmp_path: Path) -> None:
    from components.curate.component import COMPONENT

    path = write_zst(tmp_path / "in.jsonl.zst", lines(DATATROVE), lines(DATATROVE[:1]))
    source = {"name": "jsonl", "path": str(path), "columns": {"text": "text", "id": "id", "domain": "metadata.dump"}}
    finished = run_stage(COMPONENT, tmp_path / "run", params={"kind": "corpus", "sources": [{"source": source}]})
    assert finished.metrics["num_rows"] == 3
    assert finished.metrics["dropped_duplicate"] == 1
