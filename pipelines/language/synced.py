"""Recipes that git-sync brings: a folder behind a symbolic link that moves, whole, to the next commit.

git-sync checks each commit out into a folder of its own (.worktrees/<commit>) and renames a link to it: that is atomic.
A reader that opens several files may yet see two commits: so it looks where the links lead before and after.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from components.contract.errors import InputError
from pipelines.language.find import VARIABLE

TRIES = 5
_COMMIT = re.compile(r"(?:.*/)?(?:rev-)?([0-9a-f]{40}|[0-9a-f]{64})")
Found = TypeVar("Found")


def commit_of(path: Path) -> str | None:
    """Return the commit that a file or folder is read from now; None if no link of git-sync leads there."""
    for place in (path, *path.absolute().parents):
        try:
            found = _COMMIT.fullmatch(str(place.readlink()))
        except OSError:  # no link
            continue
        if found:
            return found[1]
    return None


def consistently(read: Callable[[], Found]) -> Found:
    """Return what `read` returns from one commit of each folder of recipes; it is called again where a link moved.

    Raises what `read` raises while no link moves, and InputError if they never stand still.
    """
    for _ in range(TRIES):
        before = _commits()
        try:
            found = read()
        except (InputError, OSError):  # the files of the last commit may be gone
            if _commits() == before:
                raise
            continue
        if _commits() == before:
            return found
    raise InputError(f"git-sync moved the recipes of {VARIABLE} {TRIES} times while they were read; try again")


def _commits() -> list[str | None]:
    folders = os.environ.get(VARIABLE, "").split(os.pathsep)
    return [commit_of(Path(folder)) for folder in folders if folder]
