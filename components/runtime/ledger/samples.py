"""The samples that a stage left behind for people to read, from its artifacts."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from itertools import islice
from typing import TYPE_CHECKING, Any

from components.contract.artifacts import SAMPLES_FILE, ArtifactType
from components.contract.samples import Sample, read_samples

if TYPE_CHECKING:
    from components.runtime.store import Store

Places = tuple[tuple[ArtifactType, str], ...]
SOURCES: Places = (
    (ArtifactType.METRICS, SAMPLES_FILE),
    (ArtifactType.ROLLOUTS, "rows*.jsonl"),
    (ArtifactType.DATASET, "rows*.jsonl"),
)
"""Where samples lie, the best place first; a stage's are those of the first place that has any."""
WRITTEN = SOURCES[:2]
"""Places of what a policy wrote; rows of data are left out."""
MAX_BYTES = 64 << 20
"""Larger files are not read: these are rows for programs."""
MAX_SAMPLES = 5000


def stage_samples(store: Store, outputs: Mapping[str, Mapping[str, Any]], sources: Places = SOURCES) -> list[Sample]:
    """Return the samples of a stage's outputs, given as its ledger entry names them; empty if it kept none.

    Raises CorruptArtifact or InputError for what cannot be read.
    """
    for type, pattern in sources:
        for output in outputs.values():
            if output["type"] != type:
                continue
            manifest = store.manifest(output["digest"])
            names = [
                entry.path for entry in manifest.files if fnmatchcase(entry.path, pattern) and entry.size <= MAX_BYTES
            ]
            if names:
                lines = store.read_file(output["digest"], min(names)).split(b"\n")
                return list(islice(read_samples(lines), MAX_SAMPLES))
    return []
