"""Files of rows: which ones a path names, and the rows of one, streamed."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, cast

from components.contract.errors import InputError
from components.contract.uploaded import files_of
from components.tasks.rows import iter_lines, parse_line
from components.tasks.source import BadRow

JSONL_SUFFIXES = (".jsonl", ".jsonl.gz", ".jsonl.zst", ".ndjson")
PARQUET_SUFFIXES = (".parquet",)
PARQUET_BATCH_ROWS = 1024
READ_BYTES = 1 << 20
"""Read from a decompressor at once."""
NamedRow = tuple[str, Mapping[str, Any]]


def find_files(path: str, suffixes: tuple[str, ...]) -> list[Path]:
    """Return the files that a file, folder or glob pattern names, sorted; raise InputError when there are none."""
    if (sent := files_of(path)) is not None:
        return sent
    try:
        given = Path(path).expanduser()
    except RuntimeError:
        raise InputError(f"{path}: there is no such user's folder") from None
    if given.is_file():
        return [given]
    if given.is_dir():
        found = [file for suffix in suffixes for file in given.rglob(f"*{suffix}")]
    else:
        root = Path(given.anchor) if given.is_absolute() else Path()
        found = list(root.glob(str(given.relative_to(given.anchor)))) if any(c in path for c in "*?[") else []
    if not (found := sorted({file for file in found if file.is_file()})):
        raise InputError(f"{path}: no such file, folder with {' or '.join(suffixes)} files, or matching pattern")
    return found


def read_table(path: Path) -> Iterator[NamedRow | BadRow]:
    """Yield the rows of one file, streamed; its suffix decides the format."""
    if path.name.endswith(PARQUET_SUFFIXES):
        return _read_parquet(path)
    if path.name.endswith(JSONL_SUFFIXES):
        return _read_jsonl(path)
    raise InputError(f"{path}: unknown format (known: {', '.join((*JSONL_SUFFIXES, *PARQUET_SUFFIXES))})")


def _read_jsonl(path: Path) -> Iterator[NamedRow | BadRow]:
    with _opened(path) as stream:
        for where, line in iter_lines(_whole(stream, path), path.name):
            try:
                yield where, parse_line(line)
            except InputError as error:
                yield BadRow(where, str(error))


def _opened(path: Path) -> BinaryIO:
    """Open a file for reading, decompressed as its suffix says."""
    if path.suffix == ".gz":
        return cast(BinaryIO, gzip.open(path, "rb"))
    if path.suffix == ".zst":
        import pyarrow

        # pyarrow is in every image, and also reads files that were written by appending, frame after frame
        return io.BufferedReader(pyarrow.input_stream(str(path), compression="zstd"), READ_BYTES)
    return path.open("rb")


def _whole(stream: BinaryIO, path: Path) -> Iterator[bytes]:
    """Yield the lines of a file; raise InputError where a compressed one is damaged or ends too early."""
    try:
        yield from stream
    except (EOFError, OSError, zlib.error) as error:
        if path.suffix not in (".gz", ".zst"):
            raise
        raise InputError(f"{path.name}: cannot be decompressed to its end; get the file again: {error}") from error


def _read_parquet(path: Path) -> Iterator[NamedRow | BadRow]:
    import pyarrow
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as table:
            number = 0
            for batch in table.iter_batches(batch_size=PARQUET_BATCH_ROWS):
                for row in batch.to_pylist():
                    number += 1
                    yield f"{path.name}:row {number}", row
    except pyarrow.ArrowException as error:
        raise InputError(f"{path.name}: not a readable Parquet file: {error}") from error
