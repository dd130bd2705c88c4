"""File permissions of posttrain's data on disk: one rule, everything below a top folder follows its mode.

A top folder (a store, the folder around it with logs and mlflow.db, the cache of a bucket) that posttrain makes is
private to its owner: 0700, files 0600, artifacts 0400. To share it, give the top folder the intended mode, for a team
`chmod 2770 STORE`; everything written afterwards follows it, regardless of the writer's umask: here 2770, 0660 and
0440. Existing files keep their mode.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from components.contract.errors import StoreUnavailable

PRIVATE = 0o700


@dataclass(frozen=True)
class Access:
    """Modes of files and folders below a top folder."""

    folder: int
    file: int
    read_only: int

    @property
    def umask(self) -> int:
        """Return the umask of a process that writes there."""
        return ~self.folder & 0o777


def access_below(top: Path) -> Access:
    """Return the modes that a top folder implies; those of a private one if it does not exist yet."""
    try:
        mode = stat.S_IMODE(top.stat().st_mode)
    except OSError:
        mode = PRIVATE
    bits = mode & 0o777 | PRIVATE
    return Access(bits | mode & stat.S_ISGID, bits & 0o666, bits & 0o444)


def make_private(top: Path) -> Path:
    """Make a top folder and its missing parents, private to this user; return it."""
    for folder in (*reversed(top.parents), top):
        if not folder.is_dir():
            folder.mkdir(mode=PRIVATE, exist_ok=True)
    return top


def make_folder(folder: Path, top: Path) -> Path:
    """Make a folder below a top folder, and those between them, with the top folder's access; return it."""
    make_private(top)
    access = access_below(top)
    for part in (*reversed(folder.parents), folder):
        if not part.is_dir():
            part.mkdir(mode=PRIVATE, exist_ok=True)
            open_up(part, access.folder)
    return folder


def open_up(path: Path | int, mode: int) -> None:
    """Set the mode of a file, folder or open file; on a file system without modes, do nothing."""
    try:
        os.chmod(path, mode)  # noqa: PTH101 - an open file has no Path
    except OSError:
        return


@contextmanager
def writing_below(top: Path) -> Iterator[None]:
    """Make files that libraries write inside this context follow a top folder's access, through the umask."""
    before = os.umask(access_below(top).umask)
    try:
        yield
    finally:
        os.umask(before)


def temporary_top() -> Path:
    """Return this user's private temporary folder, for local files of a bucket store.

    Raises StoreUnavailable if another user owns a folder of that name.
    """
    top = Path(tempfile.gettempdir()) / f"posttrain-{os.getuid()}"
    try:
        make_private(top)
        found = top.lstat()
    except OSError as error:
        raise StoreUnavailable(f"{top}: {error.strerror}; set TMPDIR to a folder of your own") from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise StoreUnavailable(f"{top} belongs to another user; set TMPDIR to a folder of your own")
    open_up(top, PRIVATE)
    return top


def local_cache() -> Path:
    """Return this user's folder on this machine for what can be had again: $POSTTRAIN_CACHE, or ~/.cache/posttrain."""
    return Path(os.environ.get("POSTTRAIN_CACHE") or Path.home() / ".cache" / "posttrain").absolute()


def top_of(store_uri: str) -> Path:
    """Return the top folder whose access applies to files beside a store."""
    path = store_uri.removeprefix("file://")
    return temporary_top() if "://" in path else Path(path)


def folder_beside(store_uri: str) -> Path:
    """Return the folder of logs and mlflow.db: beside a directory store, else this user's temporary folder."""
    return temporary_top() if "://" in store_uri else Path(store_uri).parent
