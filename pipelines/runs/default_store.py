"""The store that a command or a notebook works on."""

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


def chosen_store(uri: str | None) -> Store:
    """Return the store of this address, or the default one if it is None."""
    from components.runtime.store import open_store

    # an empty address is a script's unset variable: open_store refuses it rather than using another store
    return open_store(default_store() if uri is None else uri)


def store_option(store: Store) -> str:
    """Return the --store option that commands on this run need; empty if they find the store themselves."""
    default = default_store()
    found = store.uri in (default, str(Path(default).absolute()))
    return "" if found else f" --store {shlex.quote(store.uri)}"
