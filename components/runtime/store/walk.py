"""Names below a folder, with one scan per folder and no system call per file."""

from __future__ import annotations

import os
from collections.abc import Iterator


def file_keys(root: str, prefix: str, *, without: str) -> list[str]:
    """Return the keys of all files below `root` that start with `prefix`, sorted; the folder `without` is skipped."""
    folder = prefix.rpartition("/")[0]
    return sorted(key for key in _below(root, folder, without) if key.startswith(prefix))


def names_at(root: str, prefix: str, *, without: str) -> list[str]:
    """Return the names of files and folders directly in the prefix's folder that match its last part, sorted."""
    folder, _, start = prefix.rpartition("/")
    try:
        with os.scandir(f"{root}/{folder}") as found:
            return sorted(entry.name for entry in found if entry.name.startswith(start) and entry.name != without)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _below(root: str, folder: str, without: str) -> Iterator[str]:
    waiting = [folder]
    while waiting:
        above = waiting.pop()
        start = f"{above}/" if above else ""
        try:
            with os.scandir(f"{root}/{above}") as found:
                entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in found]
        except (FileNotFoundError, NotADirectoryError):  # deleted meanwhile
            continue
        for name, is_folder in entries:
            if not is_folder:
                yield start + name
            elif start or name != without:
                waiting.append(start + name)
