"""Partial checkpoints as upkeep sees them: whether one is whole to the last byte, and pieces that none holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from components.contract.errors import CorruptArtifact
from components.runtime.store.looks import look_at
from components.runtime.store.partials import IN_PIECES, is_piece, key_of, trees_of
from components.runtime.store.trees import read_manifest

if TYPE_CHECKING:
    from components.runtime.store.blobs import Blob, Blobs


def check_partial(blobs: Blobs, tree: str, digest: str) -> tuple[int | None, str | None]:
    """Read every byte of a checkpoint; return their number, None if it is not whole, and the first damage."""
    try:
        manifest = read_manifest(blobs, tree, digest)
    except CorruptArtifact as error:
        return None, str(error).removeprefix(f"{blobs.address(tree)}: ").partition(". ")[0]
    if manifest is None:
        return None, None
    if IN_PIECES not in manifest.metadata:
        return manifest.size, look_at(blobs, tree, digest, every_byte=True).damage
    for entry in manifest.files:
        found = blobs.hash(key_of(tree, manifest, entry))
        if found is None:
            return manifest.size, f"{entry.path} is missing"
        if found != (entry.size, entry.sha256):
            return manifest.size, f"{entry.path} has SHA-256 {found[1][:12]}... instead of {entry.sha256[:12]}..."
    return manifest.size, None


def loose_pieces(blobs: Blobs, found: Sequence[Blob], older_than: float) -> dict[str, list[Blob]]:
    """Return fingerprint -> pieces that no checkpoint holds and that were stored before `older_than` (epoch)."""
    loose: dict[str, list[Blob]] = {}
    held: dict[str, set[str]] = {}
    for blob in found:
        if not is_piece(blob.key) or blob.stored >= older_than:
            continue
        mark = blob.key.split("/")[1]
        if mark not in held:
            held[mark] = _held(blobs, trees_of(other.key for other in found if other.key.split("/")[1] == mark))
        if blob.key.rpartition("/")[2] not in held[mark]:
            loose.setdefault(mark, []).append(blob)
    return loose


def _held(blobs: Blobs, trees: Iterable[str]) -> set[str]:
    held: set[str] = set()
    for tree in trees:
        try:
            manifest = read_manifest(blobs, tree, tree.rpartition("-")[2])
        except CorruptArtifact:
            continue
        held.update(entry.sha256 for entry in (manifest.files if manifest else ()))
    return held
