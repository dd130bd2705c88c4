"""A quick check of a tree by manifest, sizes and times. Bytes are read only if those raise doubt.

The manifest is written after the files, and touched whenever its doubtful files were read and found intact. So a file
that changed since is newer than the manifest, and only such a file is read. A disk may also decay without changing a
time: there, a tree that was not read for a week gets a few of its files read, in turn, at almost no cost. A bucket
checks its own bytes, so there the times are enough.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from components.contract.artifacts import FileEntry, Manifest
from components.contract.errors import CorruptArtifact
from components.runtime.store.blobs import Blob, Blobs
from components.runtime.store.trees import FILES, MANIFEST, read_manifest

DAY_SECONDS = 86_400.0
SAMPLE_AFTER_SECONDS = 7 * DAY_SECONDS
SAMPLE_BYTES = 4 << 20
"""Bytes read of one tree that is due: 3 ms. Larger files are read when used, and by `posttrain verify`."""
TOUCH_AFTER_SECONDS = 600.0
"""A tree in use is touched again only after this time: young trees are not collected."""


@dataclass(frozen=True)
class Look:
    """Result of a quick check of a tree."""

    manifest: Manifest | None
    """None if there is no whole tree."""
    damage: str | None = None
    """The first problem, naming the file; None if none was found."""
    is_young: bool = False
    """Whether the tree was touched so recently that it will not be collected soon."""


def look_at(blobs: Blobs, prefix: str, digest: str, *, sample: bool = False, every_byte: bool = False) -> Look:
    """Check a tree; `sample` also reads files that are due, `every_byte` reads everything."""
    try:
        manifest = read_manifest(blobs, prefix, digest)
    except CorruptArtifact as error:
        return Look(None, _short(error, blobs.address(prefix)))
    if manifest is None:
        return Look(None)
    found = {blob.key.removeprefix(f"{prefix}/"): blob for blob in blobs.list(f"{prefix}/")}
    top = found.get(MANIFEST)
    if top is None:  # deleted between the two requests
        return Look(None)
    damage = wrong_size(manifest, found)
    if damage is None:
        changed = [entry for entry in manifest.files if found[f"{FILES}/{entry.path}"].modified > top.modified]
        due = _due(blobs, manifest, top) if sample else []
        doubtful = list(manifest.files) if every_byte else list(dict.fromkeys([*changed, *due]))
        damage = wrong_bytes(blobs, prefix, doubtful)
        if damage is None and (changed or due):  # verifying alone must not delay collection
            blobs.touch(top.key, changed=True)
    return Look(manifest, damage, abs(time.time() - top.stored) < TOUCH_AFTER_SECONDS)


def wrong_size(manifest: Manifest, found: dict[str, Blob]) -> str | None:
    """Return, as text, the first file of a tree that is missing, additional or of the wrong size, or None."""
    expected = {f"{FILES}/{entry.path}": entry for entry in manifest.files}
    for name in sorted(set(found) - set(expected) - {MANIFEST}):
        return f"{name.removeprefix(f'{FILES}/')} is there but not in the manifest"
    for name, entry in expected.items():
        if name not in found:
            return f"{entry.path} is missing"
        if found[name].size != entry.size:
            return f"{entry.path} has {found[name].size} bytes instead of {entry.size}"
    return None


def wrong_bytes(blobs: Blobs, prefix: str, entries: Iterable[FileEntry]) -> str | None:
    """Return, as text, the first of these files that does not match its SHA-256, or None."""
    for entry in entries:
        found = blobs.hash(f"{prefix}/{FILES}/{entry.path}")
        if found is None:
            return f"{entry.path} is missing"
        if found != (entry.size, entry.sha256):
            return f"{entry.path} has SHA-256 {found[1][:12]}... instead of {entry.sha256[:12]}..."
    return None


def _due(blobs: Blobs, manifest: Manifest, top: Blob) -> Sequence[FileEntry]:
    """Return the files of a tree to read now: starting at a different file each day, as many as fit."""
    if not blobs.decays or time.time() - top.modified < SAMPLE_AFTER_SECONDS or not manifest.files:
        return []
    start = int(time.time() // DAY_SECONDS) % len(manifest.files)
    chosen, left = [], SAMPLE_BYTES
    for entry in manifest.files[start:] + manifest.files[:start]:
        if entry.size <= left:
            chosen.append(entry)
            left -= entry.size
    return chosen


def _short(error: CorruptArtifact, address: str) -> str:
    """Return an error's message without the address, which callers add themselves, and without advice."""
    return str(error).removeprefix(f"{address}: ").partition(". ")[0]
