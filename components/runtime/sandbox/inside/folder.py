"""A folder filled by a hostile program: measured and emptied regardless of its depth, names and modes."""

from __future__ import annotations

import errno
import os
import stat

OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def measure(folder: str, most: int) -> tuple[int, int]:
    """Return the bytes that the files below hold on disk, and how many entries there are; stops beyond `most`."""
    size = entries = 0
    pending = [folder]
    while pending and entries <= most:
        try:
            with os.scandir(pending.pop()) as found:
                for entry in found:
                    entries += 1
                    size += entry.stat(follow_symlinks=False).st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
                    if entries > most:
                        break
        except OSError as error:
            if error.errno in (errno.ENAMETOOLONG, errno.EACCES, errno.ELOOP):
                return size, most + 1  # hidden on purpose: too deep, or closed to its owner
    return size, entries


def empty(folder: str) -> None:
    """Remove everything in the folder; no process may be at work in it.

    Goes down and up again one step at a time, so that neither recursion, the length of paths nor the number of open
    files is a limit.
    """
    here = os.open(folder, OPEN)
    names: list[str] = []
    pending = [_empty_of_files(here)]
    try:
        while True:
            if pending[-1]:
                name = pending[-1].pop()
                os.chmod(name, 0o700, dir_fd=here)
                here = _step(here, name)
                names.append(name)
                pending.append(_empty_of_files(here))
            elif names:
                here = _step(here, "..")
                os.rmdir(names.pop(), dir_fd=here)
                pending.pop()
            else:
                return
    finally:
        os.close(here)


def _empty_of_files(here: int) -> list[str]:
    """Remove everything but folders; return the folders."""
    folders = []
    for name in os.listdir(here):
        if stat.S_ISDIR(os.stat(name, dir_fd=here, follow_symlinks=False).st_mode):
            folders.append(name)
        else:
            os.unlink(name, dir_fd=here)
    return folders


def _step(here: int, name: str) -> int:
    there = os.open(name, OPEN, dir_fd=here)
    os.close(here)
    return there
