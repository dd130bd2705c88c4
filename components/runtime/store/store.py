"""Store: artifacts by content, records by key, partial checkpoints by fingerprint. The same on a directory and on S3.

- objects/<digest>/: immutable artifacts
- partial/<fingerprint>/<step>-<digest>/: checkpoints for resume
- locks/<name>: who works on what
- <any other key>.json: records, written once
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from components.contract.artifacts import ArtifactType, Manifest, describe_folder
from components.contract.errors import CorruptArtifact, InputError
from components.runtime.store.blobs import Blobs, corrupt
from components.runtime.store.directory import DirectoryBlobs
from components.runtime.store.keys import check_digest, check_key, check_name, is_record
from components.runtime.store.records import advice, seal, unseal
from components.runtime.store.trees import (
    FILES,
    MANIFEST,
    delete_tree,
    fetch_tree,
    orphans,
    read_manifest,
    write_tree,
)

OBJECTS = "objects"
PARTIAL = "partial"
STEP_DIGITS = 12
DAY_SECONDS = 86_400.0
READS_OF_A_BAD_RECORD = 3

logger = logging.getLogger(__name__)


def open_store(uri: str) -> Store:
    """Open the store at a directory path, file:// or s3://bucket/prefix; nothing is read or made yet.

    Raises InputError for what cannot be a store, such as a path to a file or through one.
    S3 takes endpoint and credentials from the usual AWS variables (AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID, ...).
    """
    parts = urlsplit(uri)
    if parts.scheme == "s3":
        from components.runtime.store.s3 import S3Blobs

        if not parts.netloc:
            raise InputError(f"store {uri!r}: names no bucket (s3://bucket/prefix)")
        return Store(S3Blobs(parts.netloc, parts.path.strip("/")))
    if parts.scheme == "file":
        return Store(_directory(uri, Path(unquote(parts.path))))
    if "://" in uri:
        raise InputError(f"store {uri!r}: unknown scheme {parts.scheme!r} (known: a path, file://, s3://)")
    if not uri:
        raise InputError("store: an empty string is no place (a path, file:// or s3://bucket/prefix)")
    return Store(_directory(uri, Path(uri)))


def _directory(uri: str, path: Path) -> DirectoryBlobs:
    blobs = DirectoryBlobs(path)
    try:
        blobs.uri.encode()
    except UnicodeEncodeError:  # the locale has no UTF-8, so Python could not read the argument
        raise InputError(f"store {uri!r}: not readable in this locale; set PYTHONUTF8=1 or LC_ALL=C.UTF-8") from None
    try:
        there = next((folder for folder in (blobs.root, *blobs.root.parents) if folder.exists()), blobs.root)
        if not there.exists() or there.is_dir():
            return blobs
    except OSError as error:  # a name that is too long, a folder that may not be looked into
        raise InputError(f"store {uri!r}: {error.strerror}") from None
    raise InputError(f"store {uri!r}: {there} is a file; a store is a folder (a path, file:// or s3://bucket/prefix)")


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
        """Make the files below `folder` an artifact: visible whole or not at all. Idempotent.

        On a directory the files are linked, not copied, and become read-only: treat `folder` as consumed.
        """
        manifest = describe_folder(folder, type, metadata)
        write_tree(self.blobs, f"{OBJECTS}/{manifest.digest}", folder, manifest)
        return manifest

    def has(self, digest: str) -> bool:
        """Return whether the artifact is there; its files are not verified."""
        return self.blobs.read(f"{OBJECTS}/{check_digest(digest)}/{MANIFEST}") is not None

    def manifest(self, digest: str) -> Manifest:
        """Return an artifact's verified manifest; raise InputError if there is none, CorruptArtifact if bad."""
        manifest = read_manifest(self.blobs, f"{OBJECTS}/{check_digest(digest)}", digest)
        if manifest is None:
            raise InputError(f"artifact {digest}: not in {self.uri} (removed, or made in another store)")
        return manifest

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
        for blob in self.blobs.list(f"{OBJECTS}/"):
            parts = blob.key.split("/")
            if parts[2:] == [MANIFEST]:
                yield parts[1]

    def delete(self, digest: str) -> int:
        """Remove an artifact and return the number of bytes freed; records that name it stay."""
        return delete_tree(self.blobs, f"{OBJECTS}/{check_digest(digest)}")

    # Records

    def put(self, key: str, value: dict[str, Any], *, overwrite: bool = False) -> bool:
        """Store a JSON object. The first writer wins and gets True, unless `overwrite`."""
        if overwrite:
            self.blobs.write(check_key(key), seal(value))
            return True
        return self.blobs.create(check_key(key), seal(value))

    def get(self, key: str) -> dict[str, Any] | None:
        """Return the record, or None if there is none; raise CorruptArtifact if it is not what was stored."""
        check_key(key)
        for _ in range(READS_OF_A_BAD_RECORD):  # a body that was cut on its way is right the next time
            data = self.blobs.read(key)
            if data is None:
                return None
            value = unseal(data)
            if value is not None:
                return value
        raise corrupt(self.blobs.address(key), "its content does not match its own SHA-256", advice(key))

    def keys(self, prefix: str) -> Iterator[str]:
        """Yield the keys of all records that start with `prefix`, sorted."""
        return (blob.key for blob in self.blobs.list(prefix) if is_record(blob.key))

    # Partial checkpoints

    def save_partial(self, fingerprint: str, step: int, folder: Path) -> None:
        """Keep `folder` as what a job resumes from at `step`, and the newest earlier one as a fallback.

        Steps after this one were unreadable (else the job had resumed from them), so they go too.
        """
        root = f"{PARTIAL}/{check_name(fingerprint, 'fingerprint')}"
        manifest = describe_folder(folder, ArtifactType.CHECKPOINTS, {"step": step})
        saved = f"{root}/{step:0{STEP_DIGITS}d}-{manifest.digest}"
        write_tree(self.blobs, saved, folder, manifest)
        earlier = [tree for tree in self._partials(fingerprint) if tree < saved]
        for tree in self._partials(fingerprint):
            if tree not in (saved, *earlier[:1]):
                delete_tree(self.blobs, tree)

    def load_partial(self, fingerprint: str) -> tuple[int, Path] | None:
        """Return step and read-only folder of the newest whole and verified partial, or None.

        A damaged one is reported, removed and passed over for the one before it.
        """
        for tree in self._partials(fingerprint):
            step, _, digest = tree.rpartition("/")[2].partition("-")
            try:
                manifest = read_manifest(self.blobs, tree, digest)
                if manifest is not None:
                    return int(step), fetch_tree(self.blobs, tree, manifest)
            except CorruptArtifact as error:
                logger.warning("partial checkpoint of step %d is damaged and left out: %s", int(step), error)
                delete_tree(self.blobs, tree)
        return None

    def drop_partial(self, fingerprint: str) -> None:
        """Remove all partial checkpoints of a job."""
        for tree in self._partials(fingerprint):
            delete_tree(self.blobs, tree)

    def _partials(self, fingerprint: str) -> list[str]:
        """Return the prefixes of all partial trees, whole or not, newest first."""
        found = self.blobs.list(f"{PARTIAL}/{check_name(fingerprint, 'fingerprint')}/")
        return sorted({"/".join(blob.key.split("/")[:3]) for blob in found}, reverse=True)

    # Coordination and upkeep

    def lock(self, name: str, *, wait_seconds: float) -> AbstractContextManager[None]:
        """Hold `name` exclusively among all processes that use the store; it is freed when its holder dies.

        Raises StoreLocked, naming the holder, if it is not free within `wait_seconds`.
        """
        return self.blobs.lock(check_name(name, "lock"), wait_seconds)

    def sweep(self, *, min_age_seconds: float = DAY_SECONDS) -> int:
        """Remove what interrupted commits left behind, if old enough, and return the number of files removed.

        Never touches an artifact, a record or a whole partial. `min_age_seconds` must exceed every upload.
        """
        older_than = time.time() - min_age_seconds
        dead = orphans(self.blobs.list(f"{OBJECTS}/"), 2, older_than)
        dead += orphans(self.blobs.list(f"{PARTIAL}/"), 3, older_than)
        self.blobs.delete(blob.key for blob in dead)
        return len(dead) + self.blobs.sweep(older_than)
