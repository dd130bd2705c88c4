"""Records of exports: which folders left the store, so that a source can be followed into them."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.contract.artifacts import Manifest
from components.contract.errors import CorruptArtifact, StoreUnavailable
from components.runtime.ledger.records import utc

if TYPE_CHECKING:
    from components.runtime.store import Store

ROOT = "exports"


def note_export(store: Store, model: str, folder: Path, manifest: Manifest, *, adapter: bool) -> None:
    """Record that a model went to a folder, with the digests of its files there.

    A store that takes no record, such as one that may only be read, keeps nothing from being exported.
    """
    record = {
        "model": model,
        "folder": str(folder.resolve()),
        "adapter": adapter,
        "time": utc(time.time()),
        "files": {entry.path: entry.sha256 for entry in manifest.files},
    }
    try:
        store.put(f"{ROOT}/{model}/{manifest.digest}.json", record, overwrite=True)
    except (StoreUnavailable, OSError):
        return


def exports_of(store: Store, models: Iterable[str]) -> list[dict[str, Any]]:
    """Return the records of the exports of some models, the oldest first; damaged ones are left out."""
    found = []
    for model in dict.fromkeys(models):
        for key in store.keys(f"{ROOT}/{model}/"):
            try:
                record = store.get(key)
            except CorruptArtifact:
                continue
            found += [record] if record else []
    return sorted(found, key=lambda record: str(record["time"]))
