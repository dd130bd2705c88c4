"""Table files opened as bytes, decompressed as their suffix says."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from components.contract.errors import InputError

PACKED = (".gz", ".zst")
"""Suffixes of compression, behind that of the format."""
READ_BYTES = 1 << 20
"""Read from a decompressor at once."""
NamedRow = tuple[str, Mapping[str, Any]]


def opened(path: Path) -> BinaryIO:
    """Open a file for reading, decompressed as its suffix says."""
    if path.suffix == ".gz":
        return cast(BinaryIO, gzip.open(path, "rb"))
    if path.suffix == ".zst":
        import pyarrow

        # pyarrow is in every image, and also reads files that were written by appending, frame after frame
        return io.BufferedReader(pyarrow.input_stream(str(path), compression="zstd"), READ_BYTES)
    return path.open("rb")


def whole_lines(stream: BinaryIO, path: Path) -> Iterator[bytes]:
    """Yield the lines of a file; raise InputError where a compressed one is damaged or ends too early."""
    with undamaged(path):
        yield from stream


@contextmanager
def undamaged(path: Path) -> Iterator[None]:
    """Raise InputError where a compressed file is damaged or ends too early."""
    try:
        yield
    except (EOFError, OSError, zlib.error) as error:
        if path.suffix not in PACKED:
            raise
        raise InputError(f"{path.name}: cannot be decompressed to its end; get the file again: {error}") from error
