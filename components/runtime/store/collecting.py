"""How the garbage collector and users of artifacts avoid conflicts without a lock for every commit.

The collector marks a tree (or a record that jobs share), then checks its age, then deletes it, then removes the mark. A
user of a tree touches it (a commit does so by writing the manifest), then waits while there is a mark, then checks that
the tree is whole, and makes it again if it is not. Either the collector sees the new date and keeps the tree, or the
user sees the mark. All times are by the storage's own clock, and a directory and S3 both show a write to every later
read.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from components.runtime.store.blobs import Blob, Blobs, StoreLocked

COLLECTING = "collecting"
LOCK = "gc"
"""Held by a collector while it works."""
WAIT_SECONDS = 0.05


def wait_for_collector(blobs: Blobs, prefix: str) -> None:
    """Return once no collector is deleting the tree at `prefix`; remove the mark of a killed collector."""
    mark = _mark(prefix)
    while blobs.read(mark) is not None:
        try:
            with blobs.lock(LOCK, 0):
                blobs.delete([mark])
        except StoreLocked:
            time.sleep(WAIT_SECONDS * random.uniform(1, 2))


@contextmanager
def marked(blobs: Blobs, prefix: str) -> Iterator[float]:
    """Mark a tree while it is being deleted; yields the storage's time of the mark. The caller holds the lock."""
    mark = _mark(prefix)
    blobs.write(mark, b"")
    yield next(blob.stored for blob in blobs.list(mark) if blob.key == mark)
    # not in a `finally`: if deleting failed halfway, the mark stays, so that users of the tree see it
    blobs.delete([mark])


def collect_tree(blobs: Blobs, prefix: str, grace_seconds: float, agreed: Callable[[list[Blob]], bool]) -> int | None:
    """Delete a tree and return the bytes freed; None if it was used within the grace or `agreed` refuses its files."""
    with marked(blobs, prefix) as now:
        found = list(blobs.list(f"{prefix}/"))
        young = any(now - blob.stored < grace_seconds for blob in found)
        if young or not agreed(found):
            return None
        found.sort(key=lambda blob: not blob.key.endswith("/manifest.json"))
        blobs.delete(blob.key for blob in found[:1])
        blobs.delete(blob.key for blob in found[1:])
    return sum(blob.size for blob in found)


def collect_record(blobs: Blobs, key: str, grace_seconds: float) -> int | None:
    """Delete a record and return the bytes freed; None if it was used within the grace, or is gone."""
    with marked(blobs, key) as now:
        found = [blob for blob in blobs.list(key) if blob.key == key]
        if not found or now - found[0].stored < grace_seconds:
            return None
        blobs.delete([key])
    return found[0].size


def drop_marks(blobs: Blobs) -> None:
    """Remove the marks of a killed collector; the caller holds the lock."""
    blobs.delete([blob.key for blob in blobs.list(f"{COLLECTING}/")])


def _mark(prefix: str) -> str:
    return f"{COLLECTING}/{prefix.rpartition('/')[2]}"
