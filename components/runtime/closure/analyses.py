"""What earlier processes found in source text, kept on this machine: analysing a module takes longer than importing it.

A result is found by the text, the module and the analysis itself, so that an edit of any of them is analysed anew. The
file is private to the user, like compiled modules; a damaged, missing or unwritable one only costs time.
"""

from __future__ import annotations

import atexit
import hashlib
import sys
from contextlib import suppress
from typing import Any

from components.contract.errors import PosttrainError
from components.runtime.store.access import local_cache
from components.runtime.store.directory import DirectoryBlobs
from components.runtime.store.records import seal, unseal

FOLDER = "analyses"
MOST = 4_000
"""Results in one file; beyond that, only those that the writing process used are kept."""


class Analyses:
    """Results of one version of the analysis, in one file that is read at the first question."""

    def __init__(self, version: bytes) -> None:
        self._name = hashlib.sha256(version + repr(sys.version_info[:2]).encode()).hexdigest()[:16] + ".json"
        self._known: dict[str, Any] | None = None
        self._used: dict[str, Any] = {}
        self._new = 0

    def get(self, key: str) -> Any:
        """Return what is known for a key, or None."""
        if self._known is None:
            self._known = self._read()
            atexit.register(self.save)
        found = self._known.get(key)
        if found is not None:
            self._used[key] = found
        return found

    def put(self, key: str, value: Any) -> None:
        """Remember a result, in JSON's types; `save` writes it."""
        self._used[key] = value
        self._new += 1

    def save(self) -> None:
        """Write new results beside those that others wrote meanwhile; a process writes at its end, or when asked."""
        if not self._new:
            return
        together = {**self._read(), **self._used}
        with suppress(PosttrainError, OSError, RuntimeError):
            _files().write(self._name, seal(together if len(together) <= MOST else self._used))
        self._new = 0

    def _read(self) -> dict[str, Any]:
        with suppress(PosttrainError, OSError, RuntimeError):  # no home folder is a RuntimeError
            return unseal(_files().read(self._name) or b"") or {}
        return {}


def key_of(text: bytes, *about: object) -> str:
    """Return the key of a result on `text`, of all that it depends on besides."""
    return hashlib.sha256(repr(about).encode("utf-8", "surrogatepass") + b"\0" + text).hexdigest()


def _files() -> DirectoryBlobs:
    return DirectoryBlobs(local_cache() / FOLDER)
