"""The store that a command uses by default."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from components.runtime.store import Store

STORE_VARIABLE = "POSTTRAIN_STORE"
DEFAULT_STORE = ".posttrain/store"


def default_store() -> str:
    """Return the address of the store that the environment names, or the one below the working directory."""
    return os.environ.get(STORE_VARIABLE) or DEFAULT_STORE


def store_option(store: Store) -> str:
    """Return the --store option that commands on this run need; empty if they find the store themselves."""
    default = default_store()
    found = store.uri in (default, str(Path(default).absolute()))
    return "" if found else f" --store {shlex.quote(store.uri)}"
