"""The files of code trees that this process knows, by digest: gathered where a recipe is read, or of its store."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from components.contract.artifacts import ArtifactType, FileEntry, Manifest, hash_bytes
from components.contract.errors import InputError

Files = Mapping[str, bytes]
"""POSIX path below the tree -> content."""
Source = Callable[[str], Path]
"""Returns a read-only folder with the verified files of a digest; raises InputError if there is none."""

_kept: dict[str, Files] = {}
_sources: list[Source] = []


def manifest_of(files: Files) -> Manifest:
    """Return the manifest of the artifact that holds these files, and nothing else."""
    entries = [FileEntry(path=path, sha256=hash_bytes(data), size=len(data)) for path, data in files.items()]
    return Manifest(type=ArtifactType.CODE, files=tuple(sorted(entries, key=lambda entry: entry.path.encode())))


def keep(files: Files) -> str:
    """Make the files of a tree known and return its digest."""
    digest = manifest_of(files).digest
    _kept[digest] = files
    return digest


def look_in(source: Source) -> None:
    """Take unknown digests from `source` from now on, in place of any earlier one: a process works on one store."""
    _sources[:] = [source]


def kept(digest: str) -> Files | None:
    """Return the files that this process gathered itself; None for a tree of the store."""
    return _kept.get(digest)


def of(digest: str) -> Files:
    """Return the files of a tree; raise InputError if neither this process nor its store has it."""
    if digest not in _kept:
        root = folder(digest)
        _kept[digest] = {
            path.relative_to(root).as_posix(): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()
        }
    return _kept[digest]


def folder(digest: str) -> Path:
    """Return a read-only folder with the verified files of a tree; raise InputError if the store has none."""
    for source in _sources:
        return source(digest)
    raise InputError(f"code {digest[:12]}: this process has no store to take it from")
