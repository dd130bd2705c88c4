"""Local data on its way into the store: found and hashed where the recipe is read, then streamed, each file once."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from components.contract.artifacts import ArtifactType, FileEntry, Manifest, hash_file
from components.contract.errors import InputError
from components.contract.operator_packages.rules import is_secret
from components.contract.terminal import visible_line
from components.contract.uploaded import Upload
from components.runtime.inputs.inputs import ROWS, refuse_what_is_no_file, rows_file
from components.runtime.store.collecting import wait_for_collector
from components.runtime.store.store import OBJECTS
from components.runtime.store.trees import FILES, MANIFEST

if TYPE_CHECKING:
    from components.runtime.store import Store

Stamp = tuple[int, int]
Tell = Callable[[str], None]


@dataclass(frozen=True)
class LocalData:
    """What lies at a path now."""

    path: str
    files: Mapping[str, Path]
    """Path inside of the artifact -> the file."""
    manifest: Manifest
    stamps: Mapping[str, Stamp]
    """Path inside of the artifact -> time and size of the file when it was hashed."""

    @property
    def upload(self) -> Upload:
        """Return what a job is told of it."""
        found = self.manifest
        return Upload(path=self.path, kind=found.type, digest=found.digest, size=found.size)


def local_input(path: str, kind: ArtifactType) -> LocalData:
    """Return the file or folder of an input, with the digest that an import of it has.

    Raises InputError, in one line, for what is missing, cannot be read, or holds what is never uploaded.
    """
    source = Path(path).expanduser()
    if not source.is_dir():
        return _looked_at(path, {ROWS: rows_file(path, kind)}, kind)
    refuse_what_is_no_file(source)
    found = {file.relative_to(source).as_posix(): file for file in source.rglob("*") if file.is_file()}
    return _looked_at(path, found, kind)


def local_files(path: str, files: Sequence[Path]) -> LocalData:
    """Return the files that an operator's path names, in an artifact of their own."""
    top = Path(os.path.commonpath([file.parent for file in files]))
    return _looked_at(path, {file.relative_to(top).as_posix(): file for file in files}, ArtifactType.FILES)


def send(store: Store, data: LocalData, tell: Tell) -> None:
    """Put local data into the store, unless it is there; files that an interrupted upload left are not sent again.

    Raises InputError if a file has changed since it was hashed.
    """
    digest = data.manifest.digest
    if store.use(digest):
        return
    size = data.manifest.size
    tell(f"uploading {visible_line(data.path)} to {store.uri}: {size / (1 << 20):,.1f} MiB in {len(data.files)} files")
    prefix = f"{OBJECTS}/{digest}"
    with tempfile.TemporaryDirectory(prefix="posttrain-upload-") as scratch:
        for name, file in data.files.items():
            target = Path(scratch) / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if "://" in store.uri:
                target.symlink_to(file.absolute())  # streamed from where it lies
            else:
                shutil.copyfile(file, target)  # a store that is a folder takes its files as its own
        waiting = [entry for entry in data.manifest.files if not store.blobs.holds(f"{prefix}/{FILES}", [entry])]
        store.blobs.upload(f"{prefix}/{FILES}", Path(scratch), waiting)
    for name, file in data.files.items():
        if _stamp(file) != data.stamps[name]:
            raise InputError(f"{data.path}: {visible_line(name)} changed while it was uploaded; run again")
    store.blobs.write(f"{prefix}/{MANIFEST}", data.manifest.canonical())
    wait_for_collector(store.blobs, prefix)
    if not store.use(digest):
        raise InputError(f"{data.path}: something else removed it from {store.uri} meanwhile; run again")


def _looked_at(path: str, files: Mapping[str, Path], kind: ArtifactType) -> LocalData:
    stamps, entries = {}, []
    for name, file in sorted(files.items()):
        if any(map(is_secret, Path(name).parts)):
            raise InputError(f"{path}: {visible_line(name)} is never uploaded; name a folder without it")
        try:
            stamps[name] = _stamp(file)
            entries.append(FileEntry(path=name, sha256=hash_file(file), size=stamps[name][1]))
        except OSError as error:
            raise InputError(f"{path}: {visible_line(name)}: {error.strerror}") from None
        if _stamp(file) != stamps[name]:
            raise InputError(f"{path}: {visible_line(name)} changed while it was read; run again")
    entries.sort(key=lambda entry: entry.path.encode())
    return LocalData(path, dict(files), Manifest(type=kind, files=tuple(entries)), stamps)


def _stamp(file: Path) -> Stamp:
    try:
        status = file.stat()
    except OSError as error:
        raise InputError(f"{file}: {error.strerror}") from None
    return status.st_mtime_ns, status.st_size
