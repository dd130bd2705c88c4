"""Which files of a folder changed since its last partial checkpoint: only those are copied for the next one."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Collection
from pathlib import Path

WRITE_BITS = 0o222
SETTLED_SECONDS = 2.0
"""A file that changed more recently than this before it was looked at may change again without a new time."""
Mark = tuple[int, int, int]


class Changes:
    """The files of `folder` as the last look found them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen: dict[str, Mark] = {}

    def copy(self, into: Path, stored: Collection[str]) -> list[str]:
        """Copy files to `into`, as they are now, but not those of `stored` that did not change: their paths.

        A read-only file is linked instead: whoever made it promises that its bytes stay.
        """
        kept, seen, now = [], {}, time.time()
        for found, _, names in os.walk(self._folder):
            for name in names:
                source = Path(found) / name
                path = source.relative_to(self._folder).as_posix()
                status = source.stat()
                mark = (status.st_ino, status.st_size, status.st_mtime_ns)
                if path in stored and self._seen.get(path) == mark:
                    kept.append(path)
                else:
                    _copy(source, into / path, is_final=not status.st_mode & WRITE_BITS)
                if now - status.st_mtime > SETTLED_SECONDS:
                    seen[path] = mark
        self._seen = seen
        return kept


def _copy(source: Path, target: Path, *, is_final: bool) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if is_final:
        link_or_copy(source, target)
    else:
        shutil.copyfile(source, target)


def link_or_copy(source: Path, target: Path) -> None:
    """Give a file that will not change another name; copy it where the file system has no hard links."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
