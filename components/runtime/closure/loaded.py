"""The source of modules that a fork server has loaded, as it was at load time.

Its children run what it loaded, whatever the files contain now: results of the code before an edit must not be
recorded under the edited file's hash.
"""

from __future__ import annotations

import sys
from pathlib import Path

TEXTS: dict[Path, bytes] = {}
"""File -> its bytes when this process, or the one it was forked from, loaded it; empty in other processes."""
LIBRARIES = ("site-packages", "dist-packages")


def keep_loaded_source() -> None:
    """Keep the source of all loaded modules that do not belong to the interpreter or to a library."""
    for module in list(sys.modules.values()):
        path = Path(getattr(module, "__file__", None) or "")
        if path.suffix == ".py" and path.is_absolute() and not _is_library(path) and path.is_file():
            TEXTS[path] = path.read_bytes()


def _is_library(path: Path) -> bool:
    return any(part in path.parts for part in LIBRARIES) or path.is_relative_to(Path(sys.base_prefix) / "lib")
