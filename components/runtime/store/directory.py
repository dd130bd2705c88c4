"""Blobs in a directory: temporary file, fsync, then one rename or link that makes it visible."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from components.contract.artifacts import FileEntry, hash_file
from components.runtime.store.access import PRIVATE, access_below, open_up
from components.runtime.store.blobs import Blob, StoreLocked, copy_verified, corrupt, disk_errors, first_damage
from components.runtime.store.flock import acquire, is_held, release
from components.runtime.store.walk import file_keys, names_at

T = TypeVar("T")
TEMPORARY, LOCKS, SCRATCH = "tmp", "locks", "scratch"
WRITE_BITS = 0o222
NO_LINK = (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP)
"""Errors of another file system or one without hard links: the file is copied."""
RACES_WITH_DELETE = 100


class DirectoryBlobs:
    """Blobs as files below `root`, created at the first write. Needs a POSIX file system with hard links."""

    def __init__(self, root: Path) -> None:
        self.decays = True
        self.root = root.expanduser().absolute()
        self.uri = str(self.root)

    def read(self, key: str) -> bytes | None:
        """Return the bytes of `key`, or None if there is no such blob."""
        with self._told(f"read {key}"):
            try:
                with open(f"{self.uri}/{key}", "rb", buffering=0) as stream:  # noqa: PTH123 - twice as fast
                    return stream.readall()
            except (FileNotFoundError, NotADirectoryError):
                return None

    def write(self, key: str, data: bytes) -> None:
        """Store `data` atomically, replacing what was there."""
        with self._told(f"write {key}"), self._temporary(data) as temporary:
            self._place(key, temporary.replace)

    def create(self, key: str, data: bytes) -> bool:
        """Store `data` if `key` is free. A hard link fails if its name exists, so one writer wins."""
        with self._told(f"write {key}"), self._temporary(data) as temporary:
            return self._place(key, lambda target: _link_if_free(temporary, target))

    def upload(self, prefix: str, folder: Path, entries: Sequence[FileEntry]) -> None:
        """Link files of `folder`, or copy them if a link is not possible, and make them read-only."""
        with self._told(f"write {prefix}"):
            made: list[Path] = []
            _despite_pruning(partial(self._make_folders, self.root / prefix, made))
            self._sync_names(made)
        for entry in entries:
            key = f"{prefix}/{entry.path}"
            with self._told(f"write {key}"), self._linked(folder / entry.path) as temporary:
                self._place(key, temporary.replace)

    def holds(self, prefix: str, entries: Sequence[FileEntry]) -> bool:
        """Return whether all these files are stored under `prefix`, by their SHA-256."""
        return (self.root / prefix).is_dir() and first_damage(self.root / prefix, entries) is None

    def fetch(self, prefix: str, entries: Sequence[FileEntry]) -> Path:
        """Return the folder in place after verifying it; raise CorruptArtifact naming the first bad file."""
        folder = self.root / prefix
        with self._told("read"):
            damage = first_damage(folder, entries)
        if damage:
            raise corrupt(str(folder.parent), damage)
        return folder

    def download(self, files: Sequence[tuple[str, FileEntry]], folder: Path) -> None:
        """Copy files, each verified as it is read."""
        for key, entry in files:
            path = folder / entry.path
            with self._told(f"read {key}"):
                path.parent.mkdir(parents=True, exist_ok=True)
                damage = copy_verified(self.root / key, path, entry)
            if damage:
                raise corrupt(str(self.root / key), f"{entry.path} {damage}")

    def list(self, prefix: str) -> Iterator[Blob]:
        """Yield every blob whose key starts with `prefix`, sorted by key."""
        for key in self.keys(prefix):
            with suppress(FileNotFoundError):
                found = (self.root / key).stat()
                # a linked file keeps the mtime of its source; ctime is when it was stored
                yield Blob(key, found.st_size, found.st_ctime, found.st_mtime)

    def keys(self, prefix: str) -> Iterator[str]:
        """Yield every key that starts with `prefix`, sorted."""
        with self._told("list"):
            found = file_keys(self.uri, prefix, without=TEMPORARY)
        return iter(found)

    def names(self, prefix: str) -> Iterator[str]:
        """Yield the names of files and folders directly in the prefix's folder that match its last part, sorted."""
        with self._told("list"):
            found = names_at(self.uri, prefix, without=TEMPORARY)
        return iter(found)

    def delete(self, keys: Iterable[str]) -> None:
        """Remove blobs, and folders that become empty."""
        with self._told("delete"):
            for key in keys:
                path = self.root / key
                with suppress(FileNotFoundError, NotADirectoryError):
                    path.unlink()
                self._prune(path.parent)

    def hash(self, key: str) -> tuple[int, str] | None:
        """Return size and SHA-256 of a file, or None if there is none."""
        path = self.root / key
        with self._told(f"read {key}"):
            try:
                return path.stat().st_size, hash_file(path)
            except (FileNotFoundError, NotADirectoryError):
                return None

    def touch(self, key: str, *, changed: bool = False) -> bool:
        """Set a file's ctime to now, and with `changed` its mtime. False if there is none."""
        path = self.root / key
        with self._told(f"touch {key}"):
            try:
                # by the kernel's clock, as for every write; chmod renews the ctime even if the mode stays the same
                os.utime(path) if changed else path.chmod(stat.S_IMODE(path.stat().st_mode))
            except (FileNotFoundError, NotADirectoryError):
                return False
        return True

    def move(self, source: str, target: str) -> None:
        """Move a file or a folder by one rename; a missing one is ignored."""
        old, new = self.root / source, self.root / target
        with self._told(f"move {source}"):
            if self._place(target, lambda place: old.exists() and old.rename(place)):
                self._sync_names([old])
            self._prune(new.parent)
            self._prune(old.parent)

    def address(self, key: str) -> str:
        """Return the absolute path of `key`."""
        return str(self.root / key)

    @contextmanager
    def lock(self, name: str, wait_seconds: float) -> Iterator[None]:
        """Hold a file lock (flock), which the kernel frees when its holder dies. Raises StoreLocked."""
        path = self.root / LOCKS / f"{name}.lock"
        with self._told(f"lock {name}"):
            descriptor = acquire(path, wait_seconds)
        try:
            yield
        finally:
            release(path, descriptor)

    def locks(self) -> set[str]:
        """Return the names of the locks that are held now."""
        return {path.stem for path in (self.root / LOCKS).glob("*.lock") if is_held(path)}

    def leftovers(self, older_than: float) -> list[Blob]:
        """Return temporary and lock files that killed processes left, and scratch files of ended jobs."""
        held = self.locks()
        found = [*self.list(f"{TEMPORARY}/"), *self.list(f"{LOCKS}/")]
        found += [blob for blob in self.list(f"{SCRATCH}/") if f"job-{_mark(blob.key)}" not in held]
        return [blob for blob in found if blob.stored < older_than and Path(blob.key).stem not in held]

    def drop_leftovers(self, found: Sequence[Blob]) -> None:
        """Remove what `leftovers` found; a lock is only removed by its holder."""
        for blob in found:
            if blob.key.startswith(f"{LOCKS}/"):
                with suppress(StoreLocked):
                    release(self.root / blob.key, acquire(self.root / blob.key, 0))
        self.delete(blob.key for blob in found if not blob.key.startswith(f"{LOCKS}/"))

    def _make_folders(self, path: Path, made: list[Path]) -> None:
        """Make a folder with its parents; add to `made` those that were missing, whose names are not durable yet."""
        missing = []
        while not path.is_dir():
            missing.append(path)
            path = path.parent
        for folder in reversed(missing):
            folder.mkdir(mode=PRIVATE, exist_ok=True)
            made.append(folder)
            if self.root in folder.parents:
                open_up(folder, access_below(self.root).folder)

    def _sync_names(self, paths: Iterable[Path]) -> None:
        """Make the names of files and folders durable: a file is lost if a parent folder's name is."""
        for folder in {path.parent for path in paths}:
            with suppress(FileNotFoundError):  # pruned meanwhile, so it was empty
                sync_folder(folder)

    def _prune(self, folder: Path) -> None:
        with suppress(OSError):  # not empty, or gone
            while folder not in (self.root, self.root / TEMPORARY):  # a writer's next file goes to the second
                folder.rmdir()
                folder = folder.parent

    def _new_temporary(self) -> Path:
        folder = self.root / TEMPORARY
        _despite_pruning(partial(self._make_folders, folder, []))
        return folder / uuid.uuid4().hex

    @contextmanager
    def _temporary(self, data: bytes) -> Iterator[Path]:
        path = self._new_temporary()
        try:
            with path.open("xb") as stream:
                open_up(stream.fileno(), access_below(self.root).file)
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            yield path
        finally:
            path.unlink(missing_ok=True)

    @contextmanager
    def _linked(self, source: Path) -> Iterator[Path]:
        """Give `source` a durable read-only temporary name in the store."""
        path = self._new_temporary()
        found = source.stat()
        # a writable file with a second link could be changed through it later, so it is copied
        shared = found.st_nlink > 1 and bool(found.st_mode & WRITE_BITS)
        try:
            if shared or not _link(source, path):
                shutil.copyfile(source, path)
            open_up(path, access_below(self.root).read_only)
            sync_folder(path)
            yield path
        finally:
            path.unlink(missing_ok=True)  # still there if it was already a hard link to the target

    def _place(self, key: str, move: Callable[[Path], T]) -> T:
        """Make a temporary file visible as `key` and return what `move` returns."""
        target = self.root / key
        made: list[Path] = []

        def attempt() -> T:
            self._make_folders(target.parent, made)
            return move(target)

        result = _despite_pruning(attempt)
        self._sync_names([*made, target])
        return result

    def _told(self, verb: str) -> AbstractContextManager[None]:
        return disk_errors(f"store {self.root}", verb)


def _despite_pruning(work: Callable[[], T]) -> T:
    """Do work that needs folders; begin again if a collector pruned one meanwhile."""
    for _ in range(RACES_WITH_DELETE):
        # mkdir may raise "exists" for a folder that has been pruned since
        with suppress(FileNotFoundError, FileExistsError):
            return work()
    return work()  # the last try raises its error


def _mark(key: str) -> str:
    """Return the fingerprint that a scratch file's folder is named after."""
    return key.split("/")[1]


def _link_if_free(source: Path, target: Path) -> bool:
    try:
        os.link(source, target)
    except FileExistsError:
        return False
    return True


def _link(source: Path, target: Path) -> bool:
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in NO_LINK:
            raise
        return False
    return True


def sync_folder(path: Path) -> None:
    """Make the content of a file, or the names in a folder, survive a power loss."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
