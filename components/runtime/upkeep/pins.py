"""Pins: runs and artifacts that the collector keeps regardless of its rules, until somebody removes the pin.

pins/runs/<run>.json
pins/artifacts/<digest>.json
"""

from __future__ import annotations

import getpass
import time
from typing import TYPE_CHECKING, Any

from components.contract.errors import InputError
from components.runtime.lineage.heal import read_or_copy

if TYPE_CHECKING:
    from components.runtime.store import Store

ROOT = "pins"
RUNS, ARTIFACTS = "runs", "artifacts"


def pin(store: Store, kind: str, name: str, *, note: str = "") -> bool:
    """Pin a run or an artifact (`kind` is "runs" or "artifacts"); False if it was pinned before.

    Raises InputError for a missing or damaged artifact.
    """
    if kind == ARTIFACTS and not store.use(name):
        raise InputError(f"artifact {name}: not whole in {store.uri}, so there is nothing to keep")
    record = {"kind": kind, "name": name, "note": note, "by": getpass.getuser(), "time": time.time()}
    return store.put(pin_key(kind, name), record)


def unpin(store: Store, kind: str, name: str) -> bool:
    """Remove a pin; False if there was none."""
    key = pin_key(kind, name)
    there = any(blob.key == key for blob in store.blobs.list(key))
    store.blobs.delete([key])
    return there


def pins(store: Store) -> list[dict[str, Any]]:
    """Return all pins: {"kind", "name", "note", "by", "time"}; for a damaged one, only kind and name from its key."""
    found = []
    for key in store.keys(f"{ROOT}/"):
        _, kind, name = key.removesuffix(".json").split("/")
        blank = {"kind": kind, "name": name, "note": "", "by": "", "time": 0.0}
        found.append(blank | (read_or_copy(store, key) or {}))
    return found


def pinned(store: Store, kind: str) -> set[str]:
    """Return the pinned names, from the keys alone: damage to a pin must not lose what it keeps."""
    prefix = f"{ROOT}/{kind}/"
    return {key.removeprefix(prefix).removesuffix(".json") for key in store.keys(prefix)}


def pin_key(kind: str, name: str) -> str:
    """Return the key of a pin."""
    return f"{ROOT}/{kind}/{name}.json"
