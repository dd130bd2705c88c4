"""Store: artifacts by content, records by key, partial checkpoints by fingerprint. The same on a directory and on S3.

- objects/<digest>/: immutable artifacts
- partial/<fingerprint>/: checkpoints for resume
- locks/<name>: locks
- quarantine/<time>-<random>/: damaged data, with the reason
- collecting/<digest>: marks of what the collector is deleting
- <any other key>.json: records, written once
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

from components.contract.artifacts import ArtifactType, Manifest, describe_folder
from components.contract.errors import CorruptArtifact, InputError, StoreUnavailable
from components.runtime.store.blobs import Blob, Blobs, StoreLocked, corrupt
from components.runtime.store.collecting import collect_tree, wait_for_collector
from components.runtime.store.keys import check_digest, check_key, check_name, is_record
from components.runtime.store.looks import DAY_SECONDS, Look, look_at
from components.runtime.store.partial_upkeep import loose_pieces
from components.runtime.store.partials import PARTIAL, PIECES, Partials
from components.runtime.store.quarantine import Tell, set_aside
from components.runtime.store.records import advice, seal, unseal
from components.runtime.store.trees import (
    FILES,
    MANIFEST,
    fetch_tree,
    has_manifest,
    orphans,
    read_manifest,
    write_tree,
)

OBJECTS = "objects"
READS_OF_A_BAD_RECORD = 3
TRIES_OF_A_COMMIT = 5
BAD_SEAL = "its content does not match its own SHA-256"

logger = logging.getLogger(__name__)


class Store:
    """Where artifacts and the run ledger live."""

    def __init__(self, blobs: Blobs) -> None:
        self.blobs = blobs

    @property
    def uri(self) -> str:
        """Return the address that opens this store again, from any working directory."""
        return self.blobs.uri

    # Artifacts

    def commit(self, type: ArtifactType, folder: Path, metadata: dict[str, Any] | None = None) -> Manifest:
        """Make the files below `folder` an artifact, atomically. Idempotent.

        On a directory the files are linked, not copied, and become read-only: treat `folder` as consumed.
        """
        manifest = describe_folder(folder, type, metadata)
        prefix = f"{OBJECTS}/{manifest.digest}"
        for _ in range(TRIES_OF_A_COMMIT):
            write_tree(self.blobs, prefix, folder, manifest)
            wait_for_collector(self.blobs, prefix)
            seen = look_at(self.blobs, prefix, manifest.digest)
            if seen.manifest and not seen.damage:
                return manifest
            if seen.damage:
                set_aside(self.blobs, prefix, seen.damage, logger.warning)
        raise StoreUnavailable(f"{self.blobs.address(prefix)}: something else changes it all the time; run again")

    def has(self, digest: str) -> bool:
        """Return whether the artifact is stored; its files are not verified."""
        return self.blobs.read(f"{OBJECTS}/{check_digest(digest)}/{MANIFEST}") is not None

    def manifest(self, digest: str) -> Manifest:
        """Return an artifact's verified manifest; raise InputError if there is none, CorruptArtifact if bad."""
        manifest = read_manifest(self.blobs, f"{OBJECTS}/{check_digest(digest)}", digest)
        if manifest is None:
            raise InputError(f"artifact {digest}: not in {self.uri} (removed, or made in another store)")
        return manifest

    def look(self, digest: str, *, every_byte: bool = False) -> Look:
        """Check an artifact by sizes and times, or by every byte."""
        return look_at(self.blobs, f"{OBJECTS}/{check_digest(digest)}", digest, every_byte=every_byte)

    def use(self, digest: str, tell: Tell = logger.warning) -> bool:
        """Return whether an artifact is stored and passes a quick check; it is touched, which delays its collection.

        A damaged one is set aside, which is reported to `tell`.
        """
        prefix = f"{OBJECTS}/{check_digest(digest)}"
        seen = look_at(self.blobs, prefix, digest, sample=True)
        if seen.damage:
            set_aside(self.blobs, prefix, seen.damage, tell)
        if seen.damage or not seen.manifest or seen.is_young:
            return not seen.damage and seen.manifest is not None
        if not self.blobs.touch(f"{prefix}/{MANIFEST}"):
            return False
        wait_for_collector(self.blobs, prefix)
        seen = look_at(self.blobs, prefix, digest)
        return seen.manifest is not None and not seen.damage

    def fetch_or_set_aside(self, digest: str, tell: Tell = logger.warning) -> Path:
        """Return an artifact's verified files as `fetch` does; a damaged artifact is set aside before raising."""
        try:
            return self.fetch(digest)
        except CorruptArtifact as error:
            self.set_aside(f"{OBJECTS}/{digest}", str(error).partition(": ")[2].partition(". ")[0], tell)
            raise CorruptArtifact(
                f"{self.artifact_uri(digest)} is damaged and was set aside; run again: it is made anew"
            ) from error

    def set_aside(self, key: str, reason: str, tell: Tell = logger.warning) -> bool:
        """Move a damaged record, artifact or partial to quarantine/ with the reason; report it in one line."""
        return set_aside(self.blobs, key, reason, tell)

    def fetch(self, digest: str) -> Path:
        """Return a local read-only folder with the artifact's files, every one verified by its SHA-256."""
        return fetch_tree(self.blobs, f"{OBJECTS}/{digest}", self.manifest(digest))

    def read_file(self, digest: str, path: str) -> bytes:
        """Return one file of an artifact without the others, verified by its SHA-256."""
        (entry,) = (entry for entry in self.manifest(digest).files if entry.path == path)
        key = f"{OBJECTS}/{digest}/{FILES}/{path}"
        data = self.blobs.read(key)
        if data is None or hashlib.sha256(data).hexdigest() != entry.sha256:
            raise corrupt(self.blobs.address(key), "its bytes are not those that were stored")
        return data

    def artifact_uri(self, digest: str) -> str:
        """Return the absolute path or s3:// URI of the artifact's files."""
        return self.blobs.address(f"{OBJECTS}/{check_digest(digest)}/{FILES}")

    def digests(self) -> Iterator[str]:
        """Yield the digests of all artifacts."""
        for key in self.blobs.keys(f"{OBJECTS}/"):
            parts = key.split("/")
            if parts[2:] == [MANIFEST]:
                yield parts[1]

    def delete(self, digest: str, *, grace_seconds: float = 0.0) -> int | None:
        """Remove an artifact and return the bytes freed; None if it was stored or used within the grace.

        Records that name it stay. While jobs run, only the holder of the lock `gc` may call it, with a grace.
        """
        return collect_tree(self.blobs, f"{OBJECTS}/{check_digest(digest)}", grace_seconds, lambda found: True)

    # Records

    def put(self, key: str, value: dict[str, Any], *, overwrite: bool = False) -> bool:
        """Store a JSON object. The first writer wins and gets True, unless `overwrite`; a damaged record never wins."""
        if overwrite:
            self.blobs.write(check_key(key), seal(value))
            return True
        while not self.blobs.create(check_key(key), seal(value)):
            try:
                if self.get(key) is not None:
                    return False
            except CorruptArtifact:
                if not self.set_aside(key, BAD_SEAL):
                    self.blobs.write(key, seal(value))
                    return True
        return True

    def get(self, key: str) -> dict[str, Any] | None:
        """Return the record, or None if there is none; raise CorruptArtifact if it is not what was stored."""
        check_key(key)
        for _ in range(READS_OF_A_BAD_RECORD):  # a truncated body is right on a retry
            data = self.blobs.read(key)
            if data is None:
                return None
            value = unseal(data)
            if value is not None:
                return value
        raise corrupt(self.blobs.address(key), BAD_SEAL, advice(key))

    def recover(self, key: str, tell: Tell = logger.warning) -> dict[str, Any] | None:
        """Return the record, or None if there is none; a damaged one is set aside and counts as none."""
        try:
            return self.get(key)
        except CorruptArtifact:
            self.set_aside(key, BAD_SEAL, tell)
            return None

    def keys(self, prefix: str) -> Iterator[str]:
        """Yield the keys of all records that start with `prefix`, sorted."""
        return (key for key in self.blobs.keys(prefix) if is_record(key))

    def names(self, prefix: str) -> list[str]:
        """Return the names of records and folders directly in the prefix's folder that match its last part, sorted.

        "ledger/" gives all runs, "ledger/quick" those whose name begins with "quick"; deeper levels are not listed.
        """
        return list(self.blobs.names(prefix))

    # Partial checkpoints

    def partials(self, fingerprint: str) -> Partials:
        """Return the partial checkpoints of a job; to write, hold its lock."""
        return Partials(self.blobs, fingerprint)

    # Coordination and upkeep

    def lock(self, name: str, *, wait_seconds: float) -> AbstractContextManager[None]:
        """Hold `name` exclusively among all processes that use the store; it is freed when its holder dies.

        Raises StoreLocked, naming the holder, if it is not free within `wait_seconds`.
        """
        return self.blobs.lock(check_name(name, "lock"), wait_seconds)

    def leftovers(self, min_age_seconds: float) -> tuple[dict[str, list[Blob]], list[Blob]]:
        """Return what interrupted work left behind: incomplete trees, and the backend's own files."""
        older_than = time.time() - min_age_seconds
        trees = orphans(self.blobs.list(f"{OBJECTS}/"), 2, older_than)
        partials = list(self.blobs.list(f"{PARTIAL}/"))
        loose = loose_pieces(self.blobs, partials, older_than)
        trees |= orphans((blob for blob in partials if f"/{PIECES}/" not in blob.key), 3, older_than)
        trees |= {f"{PARTIAL}/{mark}/{PIECES}": pieces for mark, pieces in loose.items()}
        return trees, self.blobs.leftovers(older_than)

    def sweep(self, *, min_age_seconds: float = DAY_SECONDS) -> int:
        """Remove what interrupted work left behind, if old enough; return the number of files removed.

        Never touches an artifact, a record or a whole partial. While jobs run, the caller must hold the lock `gc`.
        """
        trees, own = self.leftovers(min_age_seconds)
        count = len(own)
        for prefix, members in trees.items():
            if prefix.endswith(f"/{PIECES}"):
                count += self._sweep_pieces(prefix.split("/")[1], min_age_seconds)
                continue
            still = partial(_is_orphan, prefix)
            gone = collect_tree(self.blobs, prefix, min_age_seconds, still)
            count += len(members) if gone is not None else 0
        self.blobs.drop_leftovers(own)
        return count

    def _sweep_pieces(self, mark: str, min_age_seconds: float) -> int:
        """Remove a job's pieces that no checkpoint holds, unless the job runs: it may be about to commit them."""
        try:
            with self.lock(f"job-{mark}", wait_seconds=0):
                found = list(self.blobs.list(f"{PARTIAL}/{mark}/"))
                loose = loose_pieces(self.blobs, found, time.time() - min_age_seconds).get(mark, [])
                self.blobs.delete(blob.key for blob in loose)
        except StoreLocked:
            return 0
        return len(loose)


def _is_orphan(prefix: str, found: list[Blob]) -> bool:
    return not has_manifest(prefix, found)
