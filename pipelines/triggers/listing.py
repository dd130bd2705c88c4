"""What is there now: the objects below an S3 prefix, the files of a path, the version of a registered model.

A listing is name -> tag. A tag changes with the content: an object's ETag and size, a file's SHA-256, a model's digest.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from components.contract.artifacts import hash_file
from components.contract.errors import InputError, StoreUnavailable, UnknownName
from components.runtime.lineage.registry import find_version
from components.runtime.store.s3_calls import S3Calls
from components.runtime.store.s3_objects import object_tags
from pipelines.recipe.schedule.section import Watched

if TYPE_CHECKING:
    from components.runtime.store import Store

Listing = dict[str, str]
"""Name -> tag."""

GLOB = "*?["
PATIENCE_SECONDS = 5.0
"""How long a bucket is asked; whoever watches asks again later."""


class Lister:
    """Lists what is watched. Files are read again only where their size, times or inode changed."""

    def __init__(self, store: Store | None = None) -> None:
        """`store` holds the registered models."""
        self._store = store
        self._calls: dict[str, S3Calls] = {}  # a client takes a while to make
        self._hashes: dict[str, tuple[tuple[int, ...], str]] = {}

    def list(self, item: Watched) -> Listing:
        """Return what is there; nothing there is an empty listing.

        Raises StoreUnavailable if a bucket or a file cannot be read now.
        """
        if item.kind == "s3":
            bucket, _, path = item.text.removeprefix("s3://").partition("/")
            if item.text not in self._calls:
                self._calls[item.text] = S3Calls(bucket, item.text, what="watched", patience_seconds=PATIENCE_SECONDS)
            calls = self._calls[item.text]
            shared = path.rfind("/") + 1
            return {key[shared:]: tag for key, tag in object_tags(calls, path).items()}
        if item.kind == "path":
            return self._files(item.text)
        if item.kind == "model":
            return self._model(item.text.removeprefix("models:/"))
        raise InputError(f"asset {item.text!r}: only Airflow knows its assets")

    def _model(self, name: str) -> Listing:
        try:
            version = find_version(self._store, name) if self._store else None
        except UnknownName:  # the model is there, the alias is not yet
            version = None
        return {f"version {version['version']}": version["digest"]} if version else {}

    def _files(self, text: str) -> Listing:
        top = Path(text)
        try:
            if any(char in text for char in GLOB) and not top.exists():
                root = Path(top.anchor)
                paths = sorted(root.glob(str(top.relative_to(root))))
                return self._hashed({str(path): path for path in paths})
            if top.is_dir():
                return self._hashed({str(path.relative_to(top)): path for path in _below(top)})
            return self._hashed({top.name: top})
        except OSError as error:
            raise StoreUnavailable(f"watched {error.filename or text}: {error.strerror}") from None

    def _hashed(self, paths: dict[str, Path]) -> Listing:
        found = ((name, self._hash(path)) for name, path in paths.items())
        return {name: tag for name, tag in found if tag is not None}

    def _hash(self, path: Path) -> str | None:
        """Return the digest of a plain file's content; None for anything else, and for what is gone meanwhile."""
        try:
            known = path.stat()
            if not stat.S_ISREG(known.st_mode):
                return None
            state = (known.st_size, known.st_mtime_ns, known.st_ctime_ns, known.st_ino)
            before, digest = self._hashes.get(str(path), ((), ""))
            if before != state:
                digest = hash_file(path)
                self._hashes[str(path)] = state, digest
        except FileNotFoundError:
            return None
        return digest


def _below(top: Path) -> list[Path]:
    """Return the files below a folder; links to folders are not followed, so that no circle is walked."""
    return sorted(Path(folder) / name for folder, _, names in os.walk(top, onerror=_fail) for name in names)


def _fail(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error
