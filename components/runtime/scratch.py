"""Folders for the time of one job."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from components.runtime.store import Store


@contextmanager
def scratch_folder(store: Store, mark: str) -> Iterator[Path]:
    """Yield an empty folder for the holder of a fingerprint's lock; what a killed holder left in it is removed.

    It lies inside a directory store, so that a commit can link files instead of copying them.
    """
    base = Path(tempfile.gettempdir()) / f"posttrain-{os.getuid()}" if "://" in store.uri else Path(store.uri)
    folder = base / "scratch" / mark
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
