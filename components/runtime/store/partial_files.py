"""A look into a partial checkpoint while its job runs: single files are read, and nothing is changed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from components.contract.errors import CorruptArtifact
from components.runtime.store.keys import check_name
from components.runtime.store.partials import PARTIAL, key_of, trees_of
from components.runtime.store.store import Store
from components.runtime.store.trees import read_manifest


def read_partial_files(store: Store, fingerprint: str, wanted: Callable[[str], bool]) -> tuple[int, list[bytes]] | None:
    """Return the step of a job's newest whole partial checkpoint and the contents of its files that are `wanted`.

    None if there is none. A checkpoint that is damaged, or is replaced meanwhile, is skipped for the one before it.
    """
    keys = store.blobs.keys(f"{PARTIAL}/{check_name(fingerprint, 'fingerprint')}/")
    for tree in sorted(trees_of(keys), reverse=True):
        step, _, digest = tree.rpartition("/")[2].partition("-")
        try:
            manifest = read_manifest(store.blobs, tree, digest)
        except CorruptArtifact:
            continue
        entries = [entry for entry in manifest.files if wanted(entry.path)] if manifest else []
        data = [store.blobs.read(key_of(tree, manifest, entry)) for entry in entries] if manifest else []
        whole = [
            part for part, entry in zip(data, entries, strict=True) if part is not None and _is(part, entry.sha256)
        ]
        if manifest is not None and len(whole) == len(entries):
            return int(step), whole
    return None


def _is(data: bytes, sha256: str) -> bool:
    return hashlib.sha256(data).hexdigest() == sha256
