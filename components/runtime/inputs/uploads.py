"""Local data on its way into the store: found and hashed where the recipe is read, then streamed, each file once."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from components.contract.artifacts import ArtifactType, FileEntry, Manifest, hash_file
from components.contract.errors import InputError
from components.contract.operator_packages.rules import hides_secrets, is_secret
from components.contract.terminal import visible_line
from components.contract.uploaded import Upload
from components.runtime.inputs.inputs import refuse_what_is_no_file, rows_file, rows_name
from components.runtime.store.blobs import copy_verified
from components.runtime.store.collecting import wait_for_collector
from components.runtime.store.keys import is_inside
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
        return _looked_at(path, {rows_name(source): rows_file(path, kind)}, kind)
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
    prefix, entries = f"{OBJECTS}/{digest}", {entry.path: entry for entry in data.manifest.files}
    with tempfile.TemporaryDirectory(prefix="posttrain-upload-") as scratch:
        for name, file in data.files.items():
            target = Path(scratch) / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if "://" in store.uri:
                target.symlink_to(file.absolute())  # streamed from where it lies
            elif copy_verified(file, target, entries[name]):  # a store that is a folder takes its files as its own
                raise _changed(data, name)
        waiting = [entry for entry in data.manifest.files if not store.blobs.holds(f"{prefix}/{FILES}", [entry])]
        try:
            store.blobs.upload(f"{prefix}/{FILES}", Path(scratch), waiting)
        finally:  # what was sent of a file that changed must not pass for the one that was hashed
            changed = [name for name, file in data.files.items() if _stamp(file) != data.stamps[name]]
            store.blobs.delete(f"{prefix}/{FILES}/{name}" for name in changed)
            if changed:
                raise _changed(data, changed[0])
    store.blobs.write(f"{prefix}/{MANIFEST}", data.manifest.canonical())
    wait_for_collector(store.blobs, prefix)
    if not store.use(digest):
        raise InputError(f"{data.path}: something else removed it from {store.uri} meanwhile; run again")


def _looked_at(path: str, files: Mapping[str, Path], kind: ArtifactType) -> LocalData:
    stamps: dict[str, Stamp] = {}
    entries = []
    for name, file in sorted(files.items()):
        if _holds_secrets(name, file):
            raise InputError(f"{path}: {visible_line(name)} is never uploaded; name a folder without it")
        if not (name.isprintable() and is_inside(name)):
            raise InputError(f"{path}: {visible_line(name)} cannot be a file's name in a store; rename it")
        try:
            before = file.stat()
            stamps[name] = before.st_mtime_ns, before.st_size
            entries.append(FileEntry(path=name, sha256=hash_file(file), size=before.st_size))
        except OSError as error:
            raise InputError(f"{path}: {visible_line(name)}: {error.strerror}") from None
        if _stamp(file) != stamps[name]:
            raise InputError(f"{path}: {visible_line(name)} changed while it was read; run again")
    entries.sort(key=lambda entry: entry.path.encode())
    return LocalData(path, dict(files), Manifest(type=kind, files=tuple(entries)), stamps)


def _holds_secrets(name: str, file: Path) -> bool:
    """Return whether a file is one that never leaves the machine: by its name, or by what a link leads to."""
    there = file.resolve()
    return any(map(is_secret, (*Path(name).parts, file.name, there.name))) or any(map(hides_secrets, there.parts))


def _changed(data: LocalData, name: str) -> InputError:
    return InputError(f"{data.path}: {visible_line(name)} changed while it was uploaded; run again")


def _stamp(file: Path) -> Stamp | None:
    """Return time and size of a file; None if it is gone."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
