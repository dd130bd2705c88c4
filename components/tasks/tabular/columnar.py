"""Parquet, and Arrow's files and streams (also called Feather and IPC), by batches of rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.contract.errors import InputError
from components.tasks.source import BadRow
from components.tasks.tabular.opened import NamedRow

if TYPE_CHECKING:
    import pyarrow

BATCH_ROWS = 1024
NO_JSON = ("timestamp", "date", "time", "duration", "decimal")
"""Names in Arrow's types whose values JSON lacks."""


def read_parquet(path: Path) -> Iterator[NamedRow | BadRow]:
    """Yield the rows of a Parquet file; times and decimals become text."""
    import pyarrow
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as table:
            yield from _rows(table.iter_batches(batch_size=BATCH_ROWS), table.schema_arrow, path.name)
    except pyarrow.ArrowException as error:
        raise InputError(f"{path.name}: not a readable Parquet file: {error}") from error


def read_arrow(path: Path) -> Iterator[NamedRow | BadRow]:
    """Yield the rows of an Arrow file or stream, as `save_to_disk` and Feather's second version write them."""
    import pyarrow

    try:
        with pyarrow.memory_map(str(path)) as stream:
            try:
                batches = pyarrow.ipc.open_stream(stream)
            except pyarrow.ArrowInvalid:  # a file has an index at its end, and a stream has none
                stream.seek(0)
                table = pyarrow.ipc.open_file(stream)
                parts = (table.get_batch(number) for number in range(table.num_record_batches))
                yield from _rows(parts, table.schema, path.name)
            else:
                yield from _rows(batches, batches.schema, path.name)
    except pyarrow.ArrowException as error:
        raise InputError(f"{path.name}: not a readable Arrow file: {error}") from error


def _rows(batches: Iterable[pyarrow.RecordBatch], schema: pyarrow.Schema, name: str) -> Iterator[NamedRow]:
    converts = [field.name for field in schema if any(word in str(field.type) for word in NO_JSON)]
    number = 0
    for batch in batches:
        for row in batch.to_pylist():
            number += 1
            for column in converts:
                row[column] = _plain(row[column])
            yield f"{name}:row {number}", row


def _plain(value: Any) -> Any:
    """Return a value with times and decimals as text, ISO 8601 for times."""
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, Decimal | timedelta):
        return str(value)
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, list) else value
