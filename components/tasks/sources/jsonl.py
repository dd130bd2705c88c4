"""JSONL files: one JSON object a line, plain or compressed by gzip or Zstandard, streamed."""

from __future__ import annotations

from pathlib import Path

from components.contract.errors import InputError
from components.tasks.source import SourceRequest, SourceRows
from components.tasks.sources.hf import HubDataset, read_dataset
from components.tasks.sources.s3 import is_s3, read_objects
from components.tasks.table_files import JSONL_SUFFIXES, find_files
from components.tasks.tables import FileConfig, open_files


class JsonlConfig(FileConfig):
    """Which files, and which of their keys hold what."""

    hub: HubDataset | None = None
    """A dataset of the Hugging Face hub with the same columns, which is read where there is no file at `path`. A file
    that is there is always taken, whether the hub can be reached or not."""

    def local_files(self) -> list[Path]:
        """Return the files that the path names; none for a bucket, and none where the hub's dataset is read."""
        if is_s3(self.path):
            return []
        try:
            return find_files(self.path, JSONL_SUFFIXES)
        except InputError:
            if self.hub is None:
                raise
            return []


def jsonl(request: SourceRequest, *, config: JsonlConfig) -> SourceRows:
    """Read JSONL files; errors name file and line."""
    if is_s3(config.path):
        return read_objects(request, config)
    files = config.local_files()
    if not files and config.hub is not None:
        return _read_hub(config.hub, config)
    return open_files(files, config, {"source": "jsonl", "name": Path(config.path).name})


def _read_hub(hub: HubDataset, config: JsonlConfig) -> SourceRows:
    print(
        f"source jsonl: no file {config.path}; reading {hub.dataset!r}, split {hub.split!r}, from the hub", flush=True
    )
    try:
        return read_dataset(hub, config)
    except InputError as error:
        raise InputError(
            f"source jsonl: there is no file {config.path}, and the hub's dataset cannot be read; put the file there, "
            f"or run where the hub is reachable: {error}"
        ) from error
