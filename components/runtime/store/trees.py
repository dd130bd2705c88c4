"""Trees: files first, their manifest last, so that a tree appears atomically.

A tree's prefix ends in its manifest's digest: <prefix>/files/... and <prefix>/manifest.json.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from pydantic import ValidationError

from components.contract.artifacts import Manifest
from components.runtime.store.blobs import Blob, Blobs, corrupt
from components.runtime.store.keys import is_inside

MANIFEST = "manifest.json"
FILES = "files"


def write_tree(blobs: Blobs, prefix: str, folder: Path, manifest: Manifest) -> bool:
    """Store `folder` at `prefix`, or touch the tree if it is already whole; return whether it was.

    A damaged tree must be set aside first: a file that does not belong to it would stay.
    """
    data = manifest.canonical()
    key = f"{prefix}/{MANIFEST}"
    if blobs.read(key) == data and blobs.holds(f"{prefix}/{FILES}", manifest.files):
        blobs.touch(key)
        return True
    blobs.upload(f"{prefix}/{FILES}", folder, manifest.files)
    blobs.write(key, data)
    return False


def read_manifest(blobs: Blobs, prefix: str, digest: str) -> Manifest | None:
    """Return the verified manifest of the tree at `prefix`, or None if there is no whole tree."""
    key = f"{prefix}/{MANIFEST}"
    data = blobs.read(key)
    if data is None:
        return None
    if hashlib.sha256(data).hexdigest() != digest:
        raise corrupt(blobs.address(prefix), f"{MANIFEST} does not have the digest of its address")
    try:
        manifest = Manifest.model_validate_json(data)
    except ValidationError as error:
        raise corrupt(blobs.address(prefix), f"{MANIFEST} is not a manifest") from error
    for entry in manifest.files:
        if not is_inside(entry.path):
            raise corrupt(blobs.address(prefix), f"{MANIFEST} names {entry.path!r}, outside of the artifact")
    return manifest


def fetch_tree(blobs: Blobs, prefix: str, manifest: Manifest) -> Path:
    """Return a local read-only folder with the verified files of the tree at `prefix`."""
    return blobs.fetch(f"{prefix}/{FILES}", manifest.files)


def delete_tree(blobs: Blobs, prefix: str) -> int:
    """Remove the tree at `prefix`, its manifest first, and return the number of bytes freed."""
    found = list(blobs.list(f"{prefix}/"))
    blobs.delete([f"{prefix}/{MANIFEST}"])
    blobs.delete(blob.key for blob in found)
    return sum(blob.size for blob in found)


def orphans(found: Iterable[Blob], depth: int, older_than: float) -> dict[str, list[Blob]]:
    """Return prefix -> blobs of the trees without a manifest that were last added to before `older_than` (epoch).

    `depth` is the number of key segments that make a tree's prefix.
    """
    trees: dict[str, list[Blob]] = {}
    for blob in found:
        trees.setdefault("/".join(blob.key.split("/")[:depth]), []).append(blob)
    return {
        prefix: members
        for prefix, members in trees.items()
        if not has_manifest(prefix, members) and max(member.stored for member in members) < older_than
    }


def has_manifest(prefix: str, members: Iterable[Blob]) -> bool:
    """Return whether the blobs of a tree include its manifest, which makes it whole."""
    return any(member.key == f"{prefix}/{MANIFEST}" for member in members)
