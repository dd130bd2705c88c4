"""Temporary folders of one job."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from components.runtime.store import Store
from components.runtime.store.access import make_folder, temporary_top


@contextmanager
def scratch_folder(store: Store, mark: str) -> Iterator[Path]:
    """Yield an empty folder for the holder of a fingerprint's lock; a killed holder's files in it are removed.

    It is inside a directory store, so that a commit can link files instead of copying them.
    """
    base = temporary_top() if "://" in store.uri else Path(store.uri)
    folder = base / "scratch" / mark
    shutil.rmtree(folder, ignore_errors=True)
    make_folder(folder, base)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
