"""Which keys and paths the store accepts: none that could escape it or be ambiguous."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from components.contract.errors import InputError

SEGMENT = re.compile(r"^(?!\.{1,2}$)[!-.0-\[\]-~]{1,200}$")  # printable ASCII without space, '/' and '\'
DIGEST = re.compile(r"^[0-9a-f]{64}$")
RECORD_SUFFIX = ".json"
RESERVED = ("objects", "partial", "locks", "tmp", "scratch", "quarantine", "collecting")
MAX_KEY_LENGTH = 900
"""S3 allows 1024 bytes, including the store's prefix."""


def check_key(key: str) -> str:
    """Return a record's key; raise InputError if it could escape the store, clash with it or shadow another key."""
    segments = key.split("/")
    if len(key) > MAX_KEY_LENGTH or not all(SEGMENT.match(segment) for segment in segments):
        raise InputError(f"store key {key!r}: takes printable ASCII between '/', and neither '.' nor '..'")
    if segments[0] in RESERVED:
        raise InputError(f"store key {key!r}: {segments[0]}/ belongs to the store itself")
    # a record is never below another one, so that every key is also possible in a directory
    endings = [segment.endswith(RECORD_SUFFIX) for segment in segments]
    if not endings[-1] or any(endings[:-1]):
        raise InputError(f"store key {key!r}: a record's key, and no folder in it, ends in {RECORD_SUFFIX}")
    return key


def is_record(key: str) -> bool:
    """Return whether a stored key is a record's, not one of the store's own files."""
    return key.endswith(RECORD_SUFFIX) and key.split("/")[0] not in RESERVED


def check_name(name: str, what: str) -> str:
    """Return a name that may become one path segment; raise InputError otherwise."""
    if not SEGMENT.match(name):
        raise InputError(f"{what} {name!r}: takes printable ASCII without spaces or slashes")
    return name


def check_digest(digest: str) -> str:
    """Return a SHA-256 hex digest; raise InputError for anything else."""
    if not DIGEST.match(digest):
        raise InputError(f"artifact {digest!r}: a digest has 64 hexadecimal digits")
    return digest


def is_inside(path: str) -> bool:
    """Return whether a manifest's file path stays below the artifact's root."""
    parts = PurePosixPath(path).parts
    return bool(parts) and parts[0] != "/" and ".." not in parts and "\\" not in path and "\0" not in path
