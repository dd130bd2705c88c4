"""JSONL files: one JSON object a line, gzip-compressed or not, streamed."""

from __future__ import annotations

from pathlib import Path

from components.tasks.source import SourceRequest, SourceRows
from components.tasks.sources.s3 import is_s3, read_objects
from components.tasks.tables import JSONL_SUFFIXES, FileConfig, find_files, open_files


class JsonlConfig(FileConfig):
    """Which files, and which of their keys hold what."""

    def local_files(self) -> list[Path]:
        """Return the files that the path names; none for a bucket."""
        return [] if is_s3(self.path) else find_files(self.path, JSONL_SUFFIXES)


def jsonl(request: SourceRequest, *, config: JsonlConfig) -> SourceRows:
    """Read JSONL files; errors name file and line."""
    if is_s3(config.path):
        return read_objects(request, config)
    files = config.local_files()
    return open_files(files, config, {"source": "jsonl", "name": Path(config.path).name})
