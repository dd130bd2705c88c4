"""Parquet files, streamed by row batches."""

from __future__ import annotations

from pathlib import Path

from components.tasks.source import SourceRequest, SourceRows
from components.tasks.sources.s3 import is_s3, read_objects
from components.tasks.table_files import PARQUET_SUFFIXES, find_files
from components.tasks.tables import FileConfig, open_files


class ParquetConfig(FileConfig):
    """Which files, and which of their columns hold what."""

    def local_files(self) -> list[Path]:
        """Return the files that the path names; none for a bucket."""
        return [] if is_s3(self.path) else find_files(self.path, PARQUET_SUFFIXES)


def parquet(request: SourceRequest, *, config: ParquetConfig) -> SourceRows:
    """Read Parquet files; errors name file and row, counted from 1."""
    if is_s3(config.path):
        return read_objects(request, config)
    files = config.local_files()
    return open_files(files, config, {"source": "parquet", "name": Path(config.path).name})
