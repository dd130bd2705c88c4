"""Uploading local data before a run: the size is shown, and more than a limit is asked for."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from components.contract.errors import InputError
from components.contract.terminal import visible, visible_line
from components.runtime.inputs.uploads import LocalData, send

if TYPE_CHECKING:
    from components.runtime.store import Store

LIMIT = "POSTTRAIN_UPLOAD_LIMIT"
"""Variable: how much a run may upload without asking, such as 500MiB or 20GiB."""
DEFAULT = "2GiB"
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(KiB|MiB|GiB|TiB)")
_UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


def upload(data: Sequence[LocalData], store: Store) -> None:
    """Put local data into the store, each once. Asks before it sends more than the limit.

    Raises InputError if a person says no, if nobody can be asked, or if a file changed since it was hashed.
    """
    waiting = [one for one in data if not store.has(one.manifest.digest)]
    size = sum(one.manifest.size for one in waiting)
    if size > _limit():
        _ask(waiting, size, store.uri)
    for one in data:
        send(store, one, lambda text: print(text, file=sys.stderr, flush=True))


def _ask(waiting: Sequence[LocalData], size: int, uri: str) -> None:
    paths = ", ".join(visible_line(one.path) for one in waiting[:3]) + (", ..." if len(waiting) > 3 else "")
    what = f"{paths}: {size / _UNITS['GiB']:,.1f} GiB would be uploaded to {uri}"
    if not (sys.stdin and sys.stdin.isatty()):
        raise InputError(f"{what}, more than {LIMIT} ({os.environ.get(LIMIT, DEFAULT)}): raise it to agree")
    print(visible(f"{what}. Continue? [y/N] "), end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise InputError(f"{what}: not agreed to")


def _limit() -> float:
    given = os.environ.get(LIMIT, DEFAULT)
    found = _SIZE.fullmatch(given.strip())
    if found is None:
        raise InputError(f"{LIMIT}={given!r}: expected a size, such as 500MiB or 20GiB")
    return float(found[1]) * _UNITS[found[2]]
