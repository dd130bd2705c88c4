"""Opening a store by its address."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from components.contract.errors import InputError
from components.runtime.store.directory import DirectoryBlobs
from components.runtime.store.store import Store


def open_store(uri: str) -> Store:
    """Open the store at a directory path, file:// or s3://bucket/prefix; nothing is read or created yet.

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
    except OSError as error:  # a name that is too long, a folder without permission
        raise InputError(f"store {uri!r}: {error.strerror}") from None
    raise InputError(f"store {uri!r}: {there} is a file; a store is a folder (a path, file:// or s3://bucket/prefix)")
