"""Artifacts: immutable, content-addressed outputs of stages.

The digest of an artifact is the SHA-256 of its canonical manifest, and the manifest names every file with its own
SHA-256. One flipped byte in a file or in the manifest is therefore detected on the next read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

CHUNK_BYTES = 1 << 20
METRICS_FILE = "metrics.json"
"""File of a Metrics artifact: name -> {"value", and where known "low", "high", "n"}."""
HISTORY_FILE = "history.jsonl"
"""File of a Metrics artifact: one row per logged step."""
SAMPLES_FILE = "samples.jsonl"
"""File of a Metrics artifact or a partial checkpoint: responses for people to read; see `contract.samples`."""


class ArtifactType(StrEnum):
    """What an artifact holds; ports of a recipe are checked against it."""

    DATASET = "Dataset"
    MODEL = "Model"
    CHECKPOINTS = "Checkpoints"
    ROLLOUTS = "Rollouts"
    METRICS = "Metrics"
    REPORT = "Report"
    OPTIMIZER = "Optimizer"
    """Averages of an optimiser, for a stage that goes on with the same model."""
    PARTS = "Parts"
    """What one shard of a stage made, for the stage that joins the shards."""
    CODE = "Code"
    """Packages and wheels of a user; no port takes it."""
    FILES = "Files"
    """Local files that an operator reads; no port takes it."""


class FileEntry(BaseModel):
    """One file of an artifact: POSIX path relative to its root, content hash and size in bytes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: str
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    size: int = Field(ge=0)


class Manifest(BaseModel):
    """Contents of an artifact. `metadata` is part of the digest, so it must not hold times or host names."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    type: ArtifactType
    files: tuple[FileEntry, ...]
    metadata: dict[str, Any] = Field(default_factory=dict)

    def canonical(self) -> bytes:
        """Return the bytes that are stored and hashed: sorted keys, no spaces, ASCII."""
        return canonical_json(self.model_dump(mode="json"))

    @property
    def digest(self) -> str:
        """Return the artifact's address: the SHA-256 hex of the canonical manifest."""
        return hashlib.sha256(self.canonical()).hexdigest()

    @property
    def size(self) -> int:
        """Return the total size of all files in bytes."""
        return sum(entry.size for entry in self.files)


def canonical_json(value: Any) -> bytes:
    """Return the one JSON encoding of `value` that is hashed; NaN and infinities are refused."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode()


def write_metrics_file(folder: Path, metrics: Mapping[str, float | Mapping[str, float]]) -> None:
    """Write a Metrics artifact's metrics.json, sorted by name, from values or whole entries; NaN is a ValueError."""
    entries = {name: found if isinstance(found, Mapping) else {"value": found} for name, found in metrics.items()}
    text = json.dumps(entries, indent=1, sort_keys=True, allow_nan=False)
    (folder / METRICS_FILE).write_text(f"{text}\n", encoding="utf-8")


def write_json_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows as JSON Lines with sorted keys."""
    path.write_text("".join(json.dumps(dict(row), sort_keys=True) + "\n" for row in rows))


def hash_file(path: Path) -> str:
    """Return the SHA-256 hex of a file's bytes, read in chunks of 1 MiB."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def hash_bytes(data: bytes) -> str:
    """Return the SHA-256 hex of bytes."""
    return hashlib.sha256(data).hexdigest()


def hash_parts(*parts: bytes | str) -> str:
    """Return the SHA-256 hex of several parts, each preceded by its length so that no two splits collide."""
    digest = hashlib.sha256()
    for part in parts:
        raw = part.encode() if isinstance(part, str) else part
        digest.update(f"{len(raw)}:".encode())
        digest.update(raw)
    return digest.hexdigest()


def describe_folder(folder: Path, type: ArtifactType, metadata: dict[str, Any] | None = None) -> Manifest:
    """Hash every regular file below `folder` into a manifest, sorted by POSIX path whatever order the OS lists.

    Raises ValueError for a symbolic link or special file: an artifact holds its own bytes only.
    """
    entries = []
    for path in folder.rglob("*"):
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            raise ValueError(f"{path}: an artifact may hold regular files only")
        if path.is_file():
            relative = path.relative_to(folder).as_posix()
            entries.append(FileEntry(path=relative, sha256=hash_file(path), size=path.stat().st_size))
    entries.sort(key=lambda entry: entry.path.encode())
    return Manifest(type=type, files=tuple(entries), metadata=metadata or {})
