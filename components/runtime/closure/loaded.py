"""The source of modules that a fork server has loaded, as it was then.

Its children run what it loaded, whatever the files say by now: a file that is edited while a run is on its way must not
give its name to numbers that the code before the edit makes.
"""

from __future__ import annotations

import sys
from pathlib import Path

TEXTS: dict[Path, bytes] = {}
"""File -> what it said when this process, or the one that it was forked from, had loaded it; empty in others."""
LIBRARIES = ("site-packages", "dist-packages")


def keep_loaded_source() -> None:
    """Keep the source of all modules that are loaded and do not belong to the interpreter or to a library."""
    for module in list(sys.modules.values()):
        path = Path(getattr(module, "__file__", None) or "")
        if path.suffix == ".py" and path.is_absolute() and not _is_library(path) and path.is_file():
            TEXTS[path] = path.read_bytes()


def _is_library(path: Path) -> bool:
    return any(part in path.parts for part in LIBRARIES) or path.is_relative_to(Path(sys.base_prefix) / "lib")
