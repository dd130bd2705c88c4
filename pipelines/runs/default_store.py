"""The store that a command or a notebook works on."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from components.contract.terminal import visible_line

if TYPE_CHECKING:
    from components.runtime.store import Store

STORE_VARIABLE = "POSTTRAIN_STORE"
DEFAULT_STORE = ".posttrain/store"
SETTING = "posttrain"
"""File in ~/.config, or in $XDG_CONFIG_HOME, whose first line is the address of the store of all other folders."""


def default_store() -> str:
    """Return the address of the store that the environment names, of the project around, or of the user's setting."""
    return os.environ.get(STORE_VARIABLE) or _elsewhere()[0] or DEFAULT_STORE


def chosen_store(uri: str | None) -> Store:
    """Return the store of this address, or the default one if it is None; says which if it is of another folder."""
    from components.runtime.store import open_store

    if uri is None and not os.environ.get(STORE_VARIABLE):
        address, why = _elsewhere()
        if address:
            print(f"posttrain: store {visible_line(address)} ({why})", file=sys.stderr)
    # an empty address is a script's unset variable: open_store refuses it rather than using another store
    return open_store(default_store() if uri is None else uri)


def store_option(store: Store) -> str:
    """Return the --store option that commands on this run need; empty if they find the store themselves."""
    default = default_store()
    found = store.uri in (default, str(Path(default).absolute()))
    return "" if found else f" --store {shlex.quote(store.uri)}"


def _elsewhere() -> tuple[str, str]:
    """Return the address of a store outside the working directory, and why it is taken; empty if there is none."""
    here = Path.cwd()
    if (here / DEFAULT_STORE).is_dir():
        return "", ""
    for folder in here.parents:
        if (folder / DEFAULT_STORE).is_dir() and _is_ours(folder / DEFAULT_STORE):
            return str(folder / DEFAULT_STORE), f"of the project in {visible_line(str(folder))}"
    setting = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / SETTING
    if setting.is_file() and (address := _first_line(setting)):
        is_path = "://" not in address
        return str(Path.home() / Path(address).expanduser()) if is_path else address, f"named by {setting}"
    return "", ""


def _is_ours(folder: Path) -> bool:
    """Return whether the user, or root for a container, made it: one that others planted above us is not taken."""
    return folder.stat().st_uid in (os.getuid(), 0)


def _first_line(file: Path) -> str:
    return next((text for line in file.read_text().splitlines() if (text := line.strip())), "")
