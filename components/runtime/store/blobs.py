"""Blobs: the storage interface of the store, implemented by a directory and by S3; nothing else knows which."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from components.contract.artifacts import CHUNK_BYTES, FileEntry, hash_file
from components.contract.errors import CorruptArtifact, StoreUnavailable

MADE_ANEW = "posttrain verify --repair sets it aside; what is missing is made anew by the next run."


class StoreLocked(StoreUnavailable):
    """A lock of the store was not free within the caller's wait."""


@dataclass(frozen=True)
class Blob:
    """One stored file: its key, size in bytes and two times in seconds since the epoch, by the storage's clock."""

    key: str
    size: int
    stored: float
    """When it was stored or touched."""
    modified: float
    """When its bytes last changed."""


class Blobs(Protocol):
    """Files by key. Every write is atomic and durable: a reader sees the old bytes, the new ones or none."""

    uri: str
    decays: bool
    """Whether bytes may change while times do not: on a disk they may, a bucket checks its own."""

    def read(self, key: str) -> bytes | None:
        """Return the bytes of `key`, or None if there is no such blob."""
        ...

    def write(self, key: str, data: bytes) -> None:
        """Store `data`, replacing what was there."""
        ...

    def create(self, key: str, data: bytes) -> bool:
        """Store `data` if `key` is free; exactly one of any racing writers gets True."""
        ...

    def upload(self, prefix: str, folder: Path, entries: Sequence[FileEntry]) -> None:
        """Store files of `folder` under `prefix`, replacing what was there; `folder` may be consumed."""
        ...

    def holds(self, prefix: str, entries: Sequence[FileEntry]) -> bool:
        """Return whether all these files are already stored under `prefix`."""
        ...

    def fetch(self, prefix: str, entries: Sequence[FileEntry]) -> Path:
        """Return a local read-only folder with exactly these files, each verified.

        Raises CorruptArtifact for the first file that is missing, additional or does not match its entry.
        """
        ...

    def download(self, files: Sequence[tuple[str, FileEntry]], folder: Path) -> None:
        """Copy blobs, each given by its key, to the paths of their entries below `folder`, verified.

        Raises CorruptArtifact for the first one that is missing or does not match its entry.
        """
        ...

    def list(self, prefix: str) -> Iterator[Blob]:
        """Yield every blob whose key starts with `prefix`, sorted by key."""
        ...

    def keys(self, prefix: str) -> Iterator[str]:
        """Yield every key that starts with `prefix`, sorted; cheaper than `list`."""
        ...

    def names(self, prefix: str) -> Iterator[str]:
        """Yield the names of files and folders directly in the prefix's folder that match its last part, sorted."""
        ...

    def delete(self, keys: Iterable[str]) -> None:
        """Remove blobs; missing ones are ignored."""
        ...

    def hash(self, key: str) -> tuple[int, str] | None:
        """Return size and SHA-256 of the stored bytes of `key`, read in chunks; None if there is no such blob."""
        ...

    def touch(self, key: str, *, changed: bool = False) -> bool:
        """Set the time of `key` to now: `stored`, with `changed` also `modified`. False if there is no such blob."""
        ...

    def move(self, source: str, target: str) -> None:
        """Move a blob, or all blobs of a tree (manifest.json first), to new keys; a missing one is ignored."""
        ...

    def address(self, key: str) -> str:
        """Return the location of `key`: an absolute path or an s3:// URI."""
        ...

    def lock(self, name: str, wait_seconds: float) -> AbstractContextManager[None]:
        """Hold `name` exclusively; freed when the holder ends, however it ends. Raises StoreLocked."""
        ...

    def locks(self) -> set[str]:
        """Return the names of the locks that are held now."""
        ...

    def leftovers(self, older_than: float) -> list[Blob]:
        """Return the backend's own files that killed writers and lock holders left before `older_than` (epoch)."""
        ...

    def drop_leftovers(self, found: Sequence[Blob]) -> None:
        """Remove what `leftovers` found."""
        ...


def first_damage(folder: Path, entries: Sequence[FileEntry]) -> str | None:
    """Return the first problem with the files below `folder`, naming the file, or None."""
    expected = {entry.path for entry in entries}
    for path in sorted(folder.rglob("*")):
        if not path.is_dir() and path.relative_to(folder).as_posix() not in expected:
            return f"{path.relative_to(folder).as_posix()} is there but not in the manifest"
    for entry in entries:
        path = folder / entry.path
        if not path.is_file():
            return f"{entry.path} is missing"
        size = path.stat().st_size
        if size != entry.size:
            return f"{entry.path} has {size} bytes instead of {entry.size}"
        found = hash_file(path)
        if found != entry.sha256:
            return f"{entry.path} has SHA-256 {found[:12]}... instead of {entry.sha256[:12]}..."
    return None


def copy_verified(source: Path, target: Path, entry: FileEntry) -> str | None:
    """Copy a file, reading it once; return in which way its bytes are not the entry's, or None."""
    digest = hashlib.sha256()
    try:
        stream = source.open("rb")
    except (FileNotFoundError, NotADirectoryError):
        return "is missing"
    with stream, target.open("wb") as copy:
        while chunk := stream.read(CHUNK_BYTES):
            digest.update(chunk)
            copy.write(chunk)
    found = digest.hexdigest()
    return None if found == entry.sha256 else f"has SHA-256 {found[:12]}... instead of {entry.sha256[:12]}..."


@contextmanager
def disk_errors(place: str, verb: str) -> Iterator[None]:
    """Turn a file system failure into an error with the place and what to do."""
    try:
        yield
    except OSError as error:
        at = f" ({error.filename})" if error.filename is not None else ""
        raise StoreUnavailable(
            f"{place}: cannot {verb}: {error.strerror or error}{at}. "
            "Check free space, permissions and that the disk is mounted, then run again."
        ) from error


def corrupt(address: str, damage: str, advice: str = MADE_ANEW) -> CorruptArtifact:
    """Return the error for damaged bytes: what, where, and what to do."""
    return CorruptArtifact(f"{address}: {damage}. {advice}")
